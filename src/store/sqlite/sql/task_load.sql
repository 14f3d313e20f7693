SELECT payload, value FROM legwork_task WHERE id = ?1;
