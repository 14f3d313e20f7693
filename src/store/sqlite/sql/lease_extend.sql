-- Changes a row only if the attempt is the present one.
UPDATE legwork_lease SET until_ms = ?3 WHERE task_id = ?1 AND token = ?2;
