SELECT value FROM legwork_meta WHERE key = 'schema' AND typeof(value) = 'integer';
