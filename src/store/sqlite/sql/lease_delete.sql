DELETE FROM legwork_lease WHERE task_id = ?1;
