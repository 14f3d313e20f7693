-- A task is terminal; its row is deleted in the same transaction.
INSERT OR FAIL INTO legwork_history
    (id, state, due_ms, started_ms, ended_ms, attempts, crashes, snoozes, token, result, errors,
     errors_dropped, kind, queue, key, priority, created_ms, payload, value, progress_done,
     progress_total, progress_text, partial, checkpoint, run_at_ms, key_scope, key_until_ms,
     after_ids, after_policy, scope, generation, is_unclean, is_reserved)
SELECT id, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,
       ?12, kind, queue, key, priority, created_ms, payload, value, progress_done,
       progress_total, progress_text, partial, checkpoint, run_at_ms, key_scope, key_until_ms,
       after_ids, after_policy, scope, generation, is_unclean, is_reserved
FROM legwork_task
WHERE id = ?1;
