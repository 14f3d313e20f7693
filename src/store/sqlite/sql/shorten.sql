-- Nothing, in a file whose owner has not asked for auto_vacuum = INCREMENTAL.
PRAGMA incremental_vacuum;
