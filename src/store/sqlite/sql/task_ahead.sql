-- The task that is about to run, and those that come next.
SELECT id, payload, value FROM legwork_task WHERE id >= ?1 ORDER BY id LIMIT ?2;
