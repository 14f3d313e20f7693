-- Tasks that others submit, in order: rows ?1 to ?2, at most ?3. Times are wall time here; nonsense is
-- cut off.
SELECT seq, op, task_id, token, bytes, kind, queue, key, payload, value, priority,
       created_ms + min(delay_ms, 274877906944), min(run_at_ms, 4611686018427),
       created_ms + min(start_by_ms, 274877906944), created_ms + min(finish_by_ms, 274877906944),
       key_scope, created_ms + min(key_window_ms, 274877906944), after_ids, after_policy, scope,
       generation, delay_ms, created_ms
FROM legwork_outbox
WHERE seq BETWEEN ?1 AND ?2 AND op = 'submit'
ORDER BY seq
LIMIT ?3;
