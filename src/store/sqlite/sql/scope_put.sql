INSERT INTO legwork_scope (id, name, generation, version, is_closed, is_unclean, has_lost, bytes)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT (id) DO UPDATE SET
    generation = excluded.generation, version = excluded.version, is_closed = excluded.is_closed,
    is_unclean = excluded.is_unclean, has_lost = excluded.has_lost, bytes = excluded.bytes;
