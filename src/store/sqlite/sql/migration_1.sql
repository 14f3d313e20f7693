-- The comments stand inside the statements, so that .schema in the sqlite3 shell shows them.
-- States are compared one by one: for an IN of more than two SQLite builds a table at every row,
-- which made the whole life of a task cost 14 µs instead of 7.

CREATE TABLE legwork_meta (
    -- Counters and what is known of the file as a whole.
    key   TEXT NOT NULL PRIMARY KEY,
    value ANY  NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO legwork_meta (key, value) VALUES
    ('schema', 0),          -- the version of these tables; set when a migration is through
    ('last_id', 0),         -- no task has an id above this
    ('last_token', 0),      -- no attempt has a token above this
    ('last_scope', 0),      -- no scope has an id above this
    ('last_generation', 0), -- no generation of a scope is above this
    ('created_ms', CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER));

CREATE TABLE legwork_task (
    -- Tasks that are not terminal. What the owner runs itself stays as it was before it began.
    id             INTEGER PRIMARY KEY CHECK (id BETWEEN 1 AND 9007199254740991),
    kind           TEXT    NOT NULL,
    queue          TEXT    NOT NULL,
    key            TEXT,              -- unique within its kind
    state          TEXT    NOT NULL CHECK (state = 'enqueued' OR state = 'scheduled'
                                           OR state = 'created' OR state = 'started'),
    priority       INTEGER NOT NULL,  -- smaller first, then due_ms, then id
    created_ms     INTEGER NOT NULL,  -- accepted; times are wall time in ms since 1970
    due_ms         INTEGER NOT NULL,  -- became runnable, or will
    started_ms     INTEGER,           -- the last attempt began
    attempts       INTEGER NOT NULL DEFAULT 0,
    crashes        INTEGER NOT NULL DEFAULT 0,
    snoozes        INTEGER NOT NULL DEFAULT 0,
    token          INTEGER,           -- of the last attempt
    payload        BLOB,
    value          BLOB,              -- what travels with it from its submitter, such as a trace id
    errors         TEXT,              -- JSON: [{"at_ms": 0, "attempt": 1, "fault": "error", "text": ""}]
    errors_dropped INTEGER,           -- that were between the first and the next
    progress_done  INTEGER,
    progress_total INTEGER,
    progress_text  TEXT,
    partial        BLOB,              -- the partial result
    checkpoint     BLOB,              -- where the next attempt goes on
    run_at_ms      INTEGER,           -- due_ms is this wall time, even if the clock is set
    start_by_ms    INTEGER,           -- aborted if it has not started by then
    finish_by_ms   INTEGER,           -- aborted if it has not finished by then
    key_scope      TEXT CHECK (key_scope = 'unfinished' OR key_scope = 'retained'
                               OR key_scope = 'window'),
    key_until_ms   INTEGER,           -- of a window
    after_ids      TEXT,              -- JSON: tasks that must finish first; one that is gone has
    after_policy   TEXT CHECK (after_policy = 'abort' OR after_policy = 'run'),
    scope          INTEGER,           -- legwork_scope.id
    generation     INTEGER,           -- of the scope, which it was put for
    is_unclean     INTEGER,           -- 1: an attempt of an earlier generation was lost
    is_reserved    INTEGER,           -- 1: its room is of the reserve
    is_cancelling  INTEGER            -- 1: asked to give up while it ran
) STRICT;

CREATE TABLE legwork_history (
    -- Terminal tasks, for as long as they are retained. Columns as in legwork_task, and three more.
    id             INTEGER PRIMARY KEY,
    kind           TEXT    NOT NULL,
    queue          TEXT    NOT NULL,
    key            TEXT,
    state          TEXT    NOT NULL CHECK (state = 'finished' OR state = 'failed'
                                           OR state = 'aborted'),
    priority       INTEGER NOT NULL,
    created_ms     INTEGER NOT NULL,
    due_ms         INTEGER NOT NULL,
    started_ms     INTEGER,
    ended_ms       INTEGER NOT NULL,  -- became terminal
    attempts       INTEGER NOT NULL,
    crashes        INTEGER NOT NULL,
    snoozes        INTEGER NOT NULL,
    token          INTEGER,
    payload        BLOB,
    value          BLOB,
    result         BLOB,
    errors         TEXT,
    errors_dropped INTEGER,
    progress_done  INTEGER,
    progress_total INTEGER,
    progress_text  TEXT,
    partial        BLOB,
    checkpoint     BLOB,
    run_at_ms      INTEGER,
    key_scope      TEXT,
    key_until_ms   INTEGER,
    after_ids      TEXT,
    after_policy   TEXT,
    scope          INTEGER,
    generation     INTEGER,
    is_unclean     INTEGER,
    is_reserved    INTEGER
) STRICT;

CREATE TABLE legwork_lease (
    -- Tasks that remote workers have. They survive a restart of the owner.
    task_id    INTEGER PRIMARY KEY,
    token      INTEGER NOT NULL, -- of the attempt, unique; whoever settles has to know it
    worker     TEXT    NOT NULL,
    started_ms INTEGER NOT NULL,
    until_ms   INTEGER NOT NULL  -- then the task is runnable again
) STRICT;

CREATE TABLE legwork_scope (
    -- What the tasks of one resource have in common.
    id         INTEGER PRIMARY KEY,
    name       TEXT    NOT NULL UNIQUE,
    generation INTEGER NOT NULL,
    version    INTEGER NOT NULL,           -- rises with every change
    is_closed  INTEGER NOT NULL DEFAULT 0, -- 1: stays for tasks that still run
    is_unclean INTEGER NOT NULL DEFAULT 0, -- 1: an attempt of an older generation was lost
    has_lost   INTEGER NOT NULL DEFAULT 0, -- 1: one of this generation was
    bytes      BLOB                        -- what it says about itself
) STRICT;

CREATE TABLE legwork_outbox (
    -- What other connections ask for, in their own transactions. The owner takes the rows away as
    -- it does what they say. A submit needs a kind, and may have what else lw_task has.
    seq           INTEGER PRIMARY KEY AUTOINCREMENT,
    op            TEXT    NOT NULL DEFAULT 'submit' CHECK (op IN
                      ('submit', 'cancel', 'retry', 'forget', 'finish', 'checkpoint')),
    created_ms    INTEGER NOT NULL
                      DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    -- of all but a submit
    task_id       INTEGER,
    token         INTEGER,           -- of the attempt that finishes, or has come to a checkpoint
    bytes         ANY,               -- its result, or the checkpoint
    -- of a submit
    kind          TEXT    CHECK (length(CAST(kind AS BLOB)) BETWEEN 1 AND 64),
    queue         TEXT    NOT NULL DEFAULT 'default'
                      CHECK (length(CAST(queue AS BLOB)) BETWEEN 1 AND 64),
    key           TEXT    CHECK (length(CAST(key AS BLOB)) BETWEEN 1 AND 256),
    payload       ANY     CHECK (length(CAST(payload AS BLOB)) <= 16777216),
    value         BLOB,
    priority      INTEGER NOT NULL DEFAULT 1000 CHECK (priority BETWEEN 0 AND 4294967295),
    delay_ms      INTEGER CHECK (delay_ms >= 0),     -- from created_ms on, like
    start_by_ms   INTEGER CHECK (start_by_ms >= 0),  -- this
    finish_by_ms  INTEGER CHECK (finish_by_ms >= 0), -- and this
    run_at_ms     INTEGER CHECK (run_at_ms >= 0),    -- since 1970
    key_scope     TEXT    CHECK (key_scope IN ('unfinished', 'retained', 'window')),
    key_window_ms INTEGER CHECK (key_window_ms > 0),
    after_ids     TEXT,              -- JSON: [12, 13]
    after_policy  TEXT    CHECK (after_policy = 'abort' OR after_policy = 'run'),
    scope         INTEGER,
    generation    INTEGER,
    CHECK ((op = 'submit') = (kind IS NOT NULL)),
    CHECK ((op = 'submit') = (task_id IS NULL)),
    CHECK (op NOT IN ('finish', 'checkpoint') OR token IS NOT NULL)
) STRICT;
