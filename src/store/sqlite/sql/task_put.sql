INSERT INTO legwork_task
    (id, kind, queue, state, priority, created_ms, due_ms, payload, value, key, key_scope,
     key_until_ms, run_at_ms, start_by_ms, finish_by_ms, after_ids, after_policy, scope,
     generation, is_unclean, is_reserved)
VALUES
    (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,
     ?12, ?13, ?14, ?15, ?16, ?17, ?18,
     ?19, ?20, ?21);
