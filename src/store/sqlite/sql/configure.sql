-- Of every connection. FULL: a power cut loses nothing that was acknowledged; NORMAL does.
PRAGMA synchronous = FULL;
PRAGMA temp_store = MEMORY;
-- What a long backlog has made of the -wal file is cut off again.
PRAGMA journal_size_limit = 67108864;
-- Some builds of SQLite overwrite whatever is deleted; here only where that costs no write.
PRAGMA secure_delete = FAST;
