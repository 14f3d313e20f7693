-- Recovery: all terminal tasks, by id. As in task_scan.sql, what can stay in the file does.
SELECT id, kind, queue, key, state, priority, created_ms, due_ms, started_ms, ended_ms, attempts,
       crashes, snoozes, token, iif(is_lean, NULL, payload), iif(is_lean, NULL, value), result,
       errors, errors_dropped, progress_done, progress_total, progress_text, partial, run_at_ms,
       key_scope, key_until_ms, after_ids, after_policy, scope, generation, is_unclean,
       is_reserved, checkpoint, length(payload), length(value)
FROM (SELECT *, coalesce(key, after_ids, run_at_ms, scope) IS NULL AS is_lean
      FROM legwork_history)
WHERE id > ?1
ORDER BY id;
