SELECT seq, op, created_ms, task_id, token, bytes, kind, queue, key, payload, value, priority,
       delay_ms, run_at_ms, start_by_ms, finish_by_ms, key_scope, key_window_ms, after_ids,
       after_policy, scope, generation
FROM legwork_outbox
ORDER BY seq
LIMIT ?1;
