-- As history_put, of a task that was put by task_put_plain: all of its row is known without a look.
INSERT INTO legwork_history
    (id, kind, queue, state, priority, created_ms, due_ms, payload, value, started_ms, ended_ms,
     attempts, crashes, snoozes, token, result)
VALUES
    (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,
     ?12, ?13, ?14, ?15, ?16);
