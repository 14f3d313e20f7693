-- The first task that others submit and nobody has taken yet.
SELECT seq FROM legwork_outbox WHERE op = 'submit' ORDER BY seq LIMIT 1;
