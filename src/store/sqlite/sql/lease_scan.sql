SELECT task_id, token, worker, started_ms, until_ms FROM legwork_lease ORDER BY task_id;
