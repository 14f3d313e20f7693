-- An attempt saves its position in the handler's own transaction. No row: it is not the present one.
INSERT INTO legwork_outbox (op, task_id, token, bytes)
SELECT 'checkpoint', id, ?2, ?3 FROM legwork_task WHERE id = ?1 AND ifnull(token, 0) <= ?2;
