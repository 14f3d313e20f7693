SELECT payload, value, checkpoint FROM legwork_task WHERE id = ?1;
