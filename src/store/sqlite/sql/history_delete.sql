DELETE FROM legwork_history WHERE id BETWEEN ?1 AND ?2;
