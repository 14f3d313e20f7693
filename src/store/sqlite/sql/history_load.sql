SELECT payload, value, result FROM legwork_history WHERE id = ?1;
