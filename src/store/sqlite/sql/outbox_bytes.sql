-- For a client: how many bytes wait in rows after ?1, and the last of these.
SELECT ifnull(sum(length(payload)), 0), ifnull(max(seq), ?1) FROM legwork_outbox WHERE seq > ?1;
