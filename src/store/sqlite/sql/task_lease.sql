-- The attempt of a task that somebody else runs. When it is only extended the row stays as it is.
UPDATE legwork_task SET
    state = 'started', token = ?2, started_ms = ?3, attempts = ?4, is_cancelling = ?5
WHERE id = ?1 AND (state <> 'started' OR token IS NOT ?2 OR is_cancelling IS NOT ?5);
