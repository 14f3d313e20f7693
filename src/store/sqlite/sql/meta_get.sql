SELECT value FROM legwork_meta WHERE key = ?1;
