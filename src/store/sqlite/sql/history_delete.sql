DELETE FROM legwork_history WHERE id = ?1;
