-- At open, before anything is read: attempts that saved a position, or were completed, in transactions
-- of their own, and whose process died before it could say so. What was completed for a scope stays: it
-- has to hear of it, and so the task is claimed once more, and finished without its handler.
UPDATE legwork_task SET checkpoint =
    (SELECT CAST(o.bytes AS BLOB)
     FROM legwork_outbox AS o
     WHERE o.op = 'checkpoint' AND o.task_id = legwork_task.id
       AND o.token >= ifnull(legwork_task.token, 0)
       AND length(CAST(o.bytes AS BLOB)) <= 65536
     ORDER BY o.seq DESC
     LIMIT 1)
WHERE id IN (SELECT o.task_id
             FROM legwork_outbox AS o
             JOIN legwork_task AS t ON t.id = o.task_id
             WHERE o.op = 'checkpoint' AND o.token >= ifnull(t.token, 0)
               AND length(CAST(o.bytes AS BLOB)) <= 65536);

INSERT OR IGNORE INTO legwork_history
    (id, kind, queue, key, state, priority, created_ms, due_ms, started_ms, ended_ms, attempts,
     crashes, snoozes, token, payload, value, result, errors, errors_dropped, progress_done,
     progress_total, progress_text, partial, checkpoint, run_at_ms, key_scope, key_until_ms,
     after_ids, after_policy, scope, generation, is_unclean, is_reserved)
SELECT t.id, t.kind, t.queue, t.key, 'finished', t.priority, t.created_ms, t.due_ms, t.started_ms,
       o.created_ms, t.attempts + 1, t.crashes, t.snoozes, o.token, t.payload, t.value,
       CAST(o.bytes AS BLOB), t.errors, t.errors_dropped, t.progress_done, t.progress_total,
       t.progress_text, t.partial, t.checkpoint, t.run_at_ms, t.key_scope, t.key_until_ms,
       t.after_ids, t.after_policy, t.scope, t.generation, t.is_unclean, t.is_reserved
FROM legwork_outbox AS o
JOIN legwork_task AS t ON t.id = o.task_id
WHERE o.op = 'finish' AND o.token >= ifnull(t.token, 0) AND t.scope IS NULL;

DELETE FROM legwork_task
WHERE id IN (SELECT task_id FROM legwork_outbox WHERE op = 'finish')
  AND id IN (SELECT id FROM legwork_history);

DELETE FROM legwork_outbox
WHERE op = 'checkpoint'
   OR (op = 'finish' AND NOT EXISTS
    (SELECT 1 FROM legwork_task AS t
     WHERE t.id = task_id AND t.scope IS NOT NULL AND legwork_outbox.token >= ifnull(t.token, 0)));

-- Leases whose end was written, and the lease itself not taken away.
DELETE FROM legwork_lease
WHERE NOT EXISTS (SELECT 1 FROM legwork_task AS t
                  WHERE t.id = legwork_lease.task_id AND t.token = legwork_lease.token
                    AND t.state = 'started');
