-- How long terminal tasks of a kind stay, as its handler said; -1: for ever.
INSERT INTO legwork_meta (key, value)
VALUES ('retention.' || ?1,
        json_object('finished_ms', ?2, 'finished_max', ?3, 'failed_ms', ?4, 'failed_max', ?5,
                    'aborted_ms', ?6, 'aborted_max', ?7, 'byte_max', ?8))
ON CONFLICT (key) DO UPDATE SET value = excluded.value;
