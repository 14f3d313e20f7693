-- An attempt saves its position in the handler's own transaction. No row: it is over, or its scope has
-- moved on. Attempts with tokens up to that of the task's row are over.
INSERT INTO main.legwork_outbox (op, task_id, token, bytes)
SELECT 'checkpoint', t.id, ?2, ?3
FROM main.legwork_task AS t
LEFT JOIN main.legwork_scope AS s ON s.id = t.scope
WHERE t.id = ?1 AND ifnull(t.token, 0) < ?2
  AND (t.scope IS NULL OR (s.generation = t.generation AND s.is_closed = 0));
