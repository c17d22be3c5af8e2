-- API keys. Only the SHA-256 of a key is kept (256 random bits need no slow hash). `id` is its public part.
-- scopes: JSON list. Times are Unix seconds.
CREATE TABLE api_keys (
  id TEXT PRIMARY KEY,
  digest TEXT NOT NULL UNIQUE,
  identity TEXT NOT NULL,
  agent_type TEXT NOT NULL,
  scopes TEXT NOT NULL,
  note TEXT NOT NULL DEFAULT '',
  created_by TEXT NOT NULL,
  created_at REAL NOT NULL,
  expires_at REAL,
  revoked_at REAL,
  used_at REAL
) WITHOUT ROWID;
CREATE INDEX keys_by_identity ON api_keys (identity);
