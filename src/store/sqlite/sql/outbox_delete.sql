DELETE FROM legwork_outbox WHERE seq = ?1;
