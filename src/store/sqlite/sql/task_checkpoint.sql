UPDATE legwork_task SET checkpoint = ?2 WHERE id = ?1;
