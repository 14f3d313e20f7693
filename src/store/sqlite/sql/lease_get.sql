-- Of a task that is started: who has it, and until when.
SELECT worker, until_ms FROM legwork_lease WHERE task_id = ?1 AND token = ?2;
