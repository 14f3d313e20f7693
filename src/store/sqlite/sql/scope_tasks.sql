-- For a client: what of a scope has not ended, of whatever generation.
SELECT id, kind, queue, state, attempts, due_ms, generation, json_extract(errors, '$[#-1].text')
FROM legwork_task
WHERE scope = ?1
ORDER BY id;
