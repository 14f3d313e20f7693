-- At open, after the tasks: those that were completed already.
SELECT task_id FROM legwork_outbox WHERE op = 'finish';
