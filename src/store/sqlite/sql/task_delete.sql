DELETE FROM legwork_task WHERE id = ?1;
