-- At open, before anything is read: attempts that saved a position, or were completed, in transactions
-- of their own, and whose process died before it could say so. What was completed for a scope stays: it
-- has to hear of it, and so the task is claimed once more, and finished without its handler.

-- Leases whose end was written, and the lease itself not taken away.
DELETE FROM legwork_lease
WHERE NOT EXISTS (SELECT 1 FROM legwork_task AS t
                  WHERE t.id = legwork_lease.task_id AND t.token = legwork_lease.token
                    AND t.state = 'started');

-- Attempts that were over are refused, as they are while an owner runs. Of a task that is leased only
-- the lease counts, and what was written before its end. Otherwise the process that died ran it: with
-- a token that it has given, and above the last one that was settled. (A completion for a scope may
-- have come from the process before that.)
DELETE FROM legwork_outbox
WHERE (op = 'finish' OR op = 'checkpoint')
  AND NOT EXISTS
    (SELECT 1
     FROM legwork_task AS t
     LEFT JOIN legwork_lease AS l ON l.task_id = t.id
     WHERE t.id = legwork_outbox.task_id
       AND CASE WHEN l.token IS NULL
                THEN legwork_outbox.token > ifnull(t.token, 0)
                     AND legwork_outbox.token <= (SELECT value FROM legwork_meta WHERE key = 'last_token')
                     AND (t.scope IS NOT NULL OR legwork_outbox.token > ifnull(
                              (SELECT value FROM legwork_meta WHERE key = 'over_token'), 0))
                ELSE legwork_outbox.token = l.token AND legwork_outbox.created_ms < l.until_ms END);

UPDATE legwork_task SET checkpoint =
    (SELECT CAST(o.bytes AS BLOB)
     FROM legwork_outbox AS o
     WHERE o.op = 'checkpoint' AND o.task_id = legwork_task.id
       AND length(CAST(o.bytes AS BLOB)) <= 65536
     ORDER BY o.seq DESC
     LIMIT 1)
WHERE id IN (SELECT task_id FROM legwork_outbox
             WHERE op = 'checkpoint' AND length(CAST(bytes AS BLOB)) <= 65536);

INSERT OR IGNORE INTO legwork_history
    (id, kind, queue, key, state, priority, created_ms, due_ms, started_ms, ended_ms, attempts,
     crashes, snoozes, token, payload, value, result, errors, errors_dropped, progress_done,
     progress_total, progress_text, partial, checkpoint, run_at_ms, key_scope, key_until_ms,
     after_ids, after_policy, scope, generation, is_unclean, is_reserved)
SELECT t.id, t.kind, t.queue, t.key, 'finished', t.priority, t.created_ms, t.due_ms, t.started_ms,
       o.created_ms, t.attempts + (t.state <> 'started'), t.crashes, t.snoozes, o.token, t.payload,
       t.value, CAST(o.bytes AS BLOB), t.errors, t.errors_dropped, t.progress_done,
       t.progress_total, t.progress_text, t.partial, t.checkpoint, t.run_at_ms, t.key_scope,
       t.key_until_ms, t.after_ids, t.after_policy, t.scope, t.generation, t.is_unclean,
       t.is_reserved
FROM legwork_outbox AS o
JOIN legwork_task AS t ON t.id = o.task_id
WHERE o.op = 'finish' AND t.scope IS NULL;

DELETE FROM legwork_task
WHERE id IN (SELECT task_id FROM legwork_outbox WHERE op = 'finish')
  AND id IN (SELECT id FROM legwork_history);

DELETE FROM legwork_lease
WHERE NOT EXISTS (SELECT 1 FROM legwork_task AS t WHERE t.id = legwork_lease.task_id);

DELETE FROM legwork_outbox
WHERE op = 'checkpoint'
   OR (op = 'finish' AND NOT EXISTS (SELECT 1 FROM legwork_task AS t WHERE t.id = task_id));
