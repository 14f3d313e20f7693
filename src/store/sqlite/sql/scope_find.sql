-- For a client: the scope of this name.
SELECT id, name, generation, version, is_unclean, bytes
FROM legwork_scope
WHERE name = ?1 AND NOT is_closed;
