SELECT substr(key, 11), value ->> 'finished_ms', value ->> 'finished_max', value ->> 'failed_ms',
       value ->> 'failed_max', value ->> 'aborted_ms', value ->> 'aborted_max',
       value ->> 'byte_max'
FROM legwork_meta
WHERE key > 'retention.' AND key < 'retention/' AND json_valid(value)
LIMIT ?1;
