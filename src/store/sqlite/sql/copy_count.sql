-- For a client: how many tasks are in which state.
SELECT state, count(*) FROM legwork_task GROUP BY state
UNION ALL
SELECT state, count(*) FROM legwork_history GROUP BY state
UNION ALL
SELECT 'created', count(*) FROM legwork_outbox WHERE op = 'submit';
