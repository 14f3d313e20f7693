-- Whose file it is: its application id, how many tables it has, and whether one is ours.
SELECT (SELECT application_id FROM pragma_application_id),
       count(*),
       count(*) FILTER (WHERE name = 'legwork_meta')
FROM sqlite_schema
WHERE type = 'table' AND name NOT LIKE 'sqlite\_%' ESCAPE '\';
