-- As task_put, of a task that is nothing but this.
INSERT INTO legwork_task
    (id, kind, queue, state, priority, created_ms, due_ms, payload, value)
VALUES
    (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9);
