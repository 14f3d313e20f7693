SELECT id, name, generation, version, is_closed, is_unclean, has_lost, bytes
FROM legwork_scope
ORDER BY id;
