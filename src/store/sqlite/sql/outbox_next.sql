-- The first row that nobody has taken yet, or the one that comes next.
SELECT ifnull((SELECT min(seq) FROM legwork_outbox),
              ifnull((SELECT seq + 1 FROM sqlite_sequence WHERE name = 'legwork_outbox'), 1));
