-- Retried by hand: with a fresh budget, without the limits of its time; its row is deleted here in
-- the same transaction.
INSERT INTO legwork_task
    (id, state, due_ms, kind, queue, key, priority, created_ms, started_ms, snoozes, token, payload,
     value, errors, errors_dropped, progress_done, progress_total, progress_text, partial,
     checkpoint, run_at_ms, key_scope, key_until_ms, after_ids, after_policy, scope, generation,
     is_unclean, is_reserved)
SELECT id, 'enqueued', ?2, kind, queue, key, priority, created_ms, started_ms, snoozes, token,
     payload, value, ?4, ?5, progress_done, progress_total, progress_text, partial,
     checkpoint, run_at_ms, key_scope, key_until_ms, after_ids, after_policy, scope, generation,
     is_unclean, ?3
FROM legwork_history
WHERE id = ?1;
