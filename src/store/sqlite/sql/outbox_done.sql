-- An attempt is completed in the handler's own transaction. No row: it is not the present one.
INSERT INTO legwork_outbox (op, task_id, token)
SELECT 'finish', id, ?2 FROM legwork_task WHERE id = ?1 AND ifnull(token, 0) <= ?2;
