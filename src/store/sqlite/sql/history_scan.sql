-- Recovery: all terminal tasks, by id.
SELECT id, kind, queue, key, state, priority, created_ms, due_ms, started_ms, ended_ms, attempts,
       crashes, snoozes, token, payload, value, result, errors,
       errors_dropped, progress_done, progress_total, progress_text, partial, run_at_ms, key_scope,
       key_until_ms, after_ids, after_policy, scope, generation, is_unclean, is_reserved,
       checkpoint
FROM legwork_history
WHERE id > ?1
ORDER BY id;
