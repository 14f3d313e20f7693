-- Triggers, since a table gets no new CHECK without being copied.

CREATE TRIGGER legwork_outbox_submit BEFORE INSERT ON legwork_outbox
-- What no task can have is refused as it is written. The condition is all that a good row costs. That
-- a key is UTF-8, and that after_ids names tasks, is looked at when the owner takes the row in.
WHEN NEW.op = 'submit'
 AND (NEW.kind GLOB '*[^a-zA-Z0-9._/:-]*' OR length(NEW.kind) <> length(CAST(NEW.kind AS BLOB))
      OR NEW.queue GLOB '*[^a-zA-Z0-9._/:-]*' OR length(NEW.queue) <> length(CAST(NEW.queue AS BLOB))
      OR (NEW.key IS NOT NULL
          AND (NEW.key GLOB '*[' || char(1) || '-' || char(31) || char(127) || ']*'
               OR instr(CAST(NEW.key AS BLOB), x'00') > 0))
      OR (NEW.delay_ms > 0 AND NEW.run_at_ms > 0)
      OR (NEW.key_scope = 'window' AND NEW.key_window_ms IS NULL)
      OR length(NEW.value) > 128)
BEGIN
    -- Only for a row that is refused: which of them it is.
    SELECT RAISE(ABORT, 'key_scope is window, but no key_window_ms is given')
    WHERE NEW.key_scope = 'window' AND NEW.key_window_ms IS NULL;
    SELECT RAISE(ABORT, 'delay_ms and run_at_ms are both given, must be one of them')
    WHERE NEW.delay_ms > 0 AND NEW.run_at_ms > 0;
    SELECT RAISE(ABORT, 'value has more than 128 bytes')
    WHERE length(NEW.value) > 128;
    SELECT RAISE(ABORT, 'key has a control character')
    WHERE NEW.key GLOB '*[' || char(1) || '-' || char(31) || char(127) || ']*'
       OR instr(CAST(NEW.key AS BLOB), x'00') > 0;
    SELECT RAISE(ABORT, 'kind and queue must be of letters, digits and . _ - / :');
END;

CREATE TRIGGER legwork_outbox_word BEFORE INSERT ON legwork_outbox
WHEN NEW.op <> 'submit'
 AND (NEW.task_id < 1 OR NEW.token < 1 OR length(CAST(NEW.bytes AS BLOB)) > 16777216
      OR (NEW.op = 'checkpoint' AND length(CAST(NEW.bytes AS BLOB)) > 65536))
BEGIN
    SELECT RAISE(ABORT, 'task_id and token are those of a task and its attempt, from 1 on')
    WHERE NEW.task_id < 1 OR NEW.token < 1;
    SELECT RAISE(ABORT, 'bytes has more than 65536 bytes, the most that a checkpoint may')
    WHERE NEW.op = 'checkpoint';
    SELECT RAISE(ABORT, 'bytes has more than 16777216 bytes');
END;

CREATE INDEX legwork_outbox_words ON legwork_outbox (seq)
-- All that is no submit is found at once, however many submits wait for room before it.
WHERE op <> 'submit';
