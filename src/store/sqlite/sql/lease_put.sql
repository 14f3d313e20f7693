-- Somebody has a task, or has it for longer.
INSERT INTO legwork_lease (task_id, token, worker, started_ms, until_ms)
VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (task_id) DO UPDATE SET
    token = excluded.token, worker = excluded.worker, started_ms = excluded.started_ms,
    until_ms = excluded.until_ms;
