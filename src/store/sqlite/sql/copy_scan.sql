-- For a client: the first task with an id from ?1 to ?2 that suits, wherever it is. One statement, so
-- that a task which moves meanwhile is seen once. Columns as in history_scan.sql; a task in the outbox has
-- the tenth set, and has not ended.
SELECT id, kind, queue, key, state, priority, created_ms, due_ms, started_ms, NULL, attempts,
       crashes, snoozes, token, payload, value, NULL, errors,
       errors_dropped, progress_done, progress_total, progress_text, partial, run_at_ms, key_scope,
       key_until_ms, after_ids, after_policy, scope, generation, is_unclean, is_reserved,
       checkpoint, NULL, NULL
FROM legwork_task
WHERE id BETWEEN ?1 AND ?2 AND (?3 IS NULL OR state = ?3 OR state = ?4)
  AND (?6 IS NULL OR kind = ?6) AND (?7 IS NULL OR queue = ?7) AND (?8 IS NULL OR key = ?8)
UNION ALL
SELECT id, kind, queue, key, state, priority, created_ms, due_ms, started_ms, ended_ms, attempts,
       crashes, snoozes, token, payload, value, result, errors,
       errors_dropped, progress_done, progress_total, progress_text, partial, run_at_ms, key_scope,
       key_until_ms, after_ids, after_policy, scope, generation, is_unclean, is_reserved,
       checkpoint, NULL, NULL
FROM legwork_history
WHERE id BETWEEN ?1 AND ?2 AND NOT ?5 AND (?3 IS NULL OR state = ?3)
  AND (?6 IS NULL OR kind = ?6) AND (?7 IS NULL OR queue = ?7) AND (?8 IS NULL OR key = ?8)
UNION ALL
SELECT 1000000000000000 + seq, kind, queue, key, 'created', priority, created_ms,
       ifnull(run_at_ms, created_ms + ifnull(delay_ms, 0)), NULL, 0, 0,
       0, 0, NULL, CAST(payload AS BLOB), value, NULL, NULL,
       NULL, NULL, NULL, NULL, NULL, run_at_ms, key_scope,
       NULL, after_ids, after_policy, scope, generation, NULL, NULL,
       NULL, NULL, NULL
FROM (SELECT * FROM legwork_outbox
      WHERE seq BETWEEN ?1 - 1000000000000000 AND ?2 - 1000000000000000 AND op = 'submit'
        AND (?3 IS NULL OR ?3 = 'created')
        AND (?6 IS NULL OR kind = ?6) AND (?7 IS NULL OR queue = ?7) AND (?8 IS NULL OR key = ?8)
      ORDER BY seq
      LIMIT 1)
ORDER BY 1
LIMIT 1;
