DELETE FROM legwork_lease WHERE task_id BETWEEN ?1 AND ?2;
