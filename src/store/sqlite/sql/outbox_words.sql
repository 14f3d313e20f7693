-- What others ask for besides that, in order.
SELECT seq, op, task_id, token, bytes, created_ms
FROM legwork_outbox INDEXED BY legwork_outbox_words
WHERE op <> 'submit'
ORDER BY seq;
