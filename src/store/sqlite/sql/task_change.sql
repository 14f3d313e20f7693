-- What an attempt leaves behind that did not end the task, or an operator.
UPDATE legwork_task SET
    state = ?2, due_ms = ?3, started_ms = ?4, attempts = ?5, crashes = ?6, snoozes = ?7,
    token = ?8, errors = ?9, errors_dropped = ?10, start_by_ms = ?11, finish_by_ms = ?12,
    is_unclean = ?13, is_cancelling = ?14
WHERE id = ?1;
