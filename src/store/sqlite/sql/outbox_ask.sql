-- Anything but a submit, about a task that is there.
INSERT INTO legwork_outbox (op, task_id, token, bytes) VALUES (?1, ?2, ?3, ?4);
