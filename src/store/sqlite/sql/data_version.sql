PRAGMA data_version;
