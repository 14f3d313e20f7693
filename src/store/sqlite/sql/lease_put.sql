INSERT INTO legwork_lease (task_id, token, worker, started_ms, until_ms)
VALUES (?1, ?2, ?3, ?4, ?5);
