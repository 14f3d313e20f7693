DELETE FROM legwork_lease WHERE task_id = ?1 AND token = ?2;
