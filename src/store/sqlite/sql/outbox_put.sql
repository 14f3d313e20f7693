-- A submit by a client. Other operations have a row of other columns (docs/schema.md).
INSERT INTO main.legwork_outbox
    (kind, queue, key, payload, value, priority, delay_ms, run_at_ms, start_by_ms, finish_by_ms,
     key_scope, key_window_ms, after_ids, after_policy, scope, generation)
VALUES
    (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10,
     ?11, ?12, ?13, ?14, ?15, ?16);
