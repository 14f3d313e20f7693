-- Whose file it is: its application id, how many tables it has, whether one is ours, and whether its
-- text is anything but UTF-8.
SELECT (SELECT application_id FROM pragma_application_id),
       count(*),
       count(*) FILTER (WHERE name = 'legwork_meta'),
       (SELECT encoding <> 'UTF-8' FROM pragma_encoding)
FROM sqlite_schema
WHERE type = 'table' AND name NOT LIKE 'sqlite\_%' ESCAPE '\';
