-- One that was revived, and is not in the other table yet, or one that has ended.
SELECT payload, value FROM legwork_history WHERE id = ?1;
