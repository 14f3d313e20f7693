-- Touches the root of every table and index, so that damage there is found at open.
SELECT (SELECT count(*) FROM (SELECT 1 FROM legwork_meta LIMIT 1))
     + (SELECT count(*) FROM (SELECT 1 FROM legwork_task LIMIT 1))
     + (SELECT count(*) FROM (SELECT 1 FROM legwork_history LIMIT 1))
     + (SELECT count(*) FROM (SELECT 1 FROM legwork_lease NOT INDEXED LIMIT 1))
     + (SELECT count(*) FROM (SELECT 1 FROM legwork_scope NOT INDEXED LIMIT 1))
     + (SELECT count(*) FROM (SELECT 1 FROM legwork_scope WHERE name = ''))
     + (SELECT count(*) FROM (SELECT 1 FROM legwork_outbox NOT INDEXED LIMIT 1))
     + (SELECT count(*) FROM (SELECT 1 FROM legwork_outbox INDEXED BY legwork_outbox_words WHERE op <> 'submit' LIMIT 1))
     + (SELECT count(*) FROM (SELECT 1 FROM sqlite_sequence LIMIT 1));
