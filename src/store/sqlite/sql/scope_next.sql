-- For a client: the first scope with an id above this one.
SELECT id, name, generation, version, is_unclean, bytes
FROM legwork_scope
WHERE id > ?1 AND NOT is_closed
ORDER BY id
LIMIT 1;
