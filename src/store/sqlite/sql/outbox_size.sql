-- For a client: at least how many rows wait; counted only if they may be ?1 or more.
WITH span (rows) AS
    (SELECT ifnull((SELECT max(seq) FROM legwork_outbox) - (SELECT min(seq) FROM legwork_outbox) + 1, 0))
SELECT CASE WHEN rows < ?1 THEN rows ELSE (SELECT count(*) FROM legwork_outbox) END FROM span;
