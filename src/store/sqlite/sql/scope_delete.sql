DELETE FROM legwork_scope WHERE id = ?1;
