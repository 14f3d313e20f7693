-- Recovery: all tasks that are not terminal, by id. Payloads and values that can stay in the file do
-- (store/lean.h): only their sizes are looked at.
SELECT id, kind, queue, key, state, priority, created_ms, due_ms, started_ms, attempts, crashes,
       snoozes, token, iif(is_lean, NULL, payload), iif(is_lean, NULL, value), errors,
       errors_dropped, progress_done, progress_total, progress_text, partial, run_at_ms,
       start_by_ms, finish_by_ms, key_scope, key_until_ms, after_ids, after_policy, scope,
       generation, is_unclean, is_reserved, is_cancelling, checkpoint,
       length(payload), length(value)
FROM (SELECT *, coalesce(key, after_ids, run_at_ms, start_by_ms, finish_by_ms, scope) IS NULL
                AS is_lean
      FROM legwork_task)
WHERE id > ?1
ORDER BY id;
