-- Of a task that is started: who has it, until when, and since when.
SELECT worker, until_ms, started_ms FROM legwork_lease WHERE task_id = ?1 AND token = ?2;
