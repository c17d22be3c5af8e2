-- API keys. Only the SHA-256 of a key is kept (256 random bits need no slow hash). `id` is its public part.
-- scopes: JSON list. Times are Unix seconds.
CREATE TABLE api_keys (
  id TEXT COLLATE "C" PRIMARY KEY,
  digest TEXT COLLATE "C" NOT NULL UNIQUE,
  identity TEXT COLLATE "C" NOT NULL,
  agent_type TEXT COLLATE "C" NOT NULL,
  scopes TEXT COLLATE "C" NOT NULL,
  note TEXT COLLATE "C" NOT NULL DEFAULT '',
  created_by TEXT COLLATE "C" NOT NULL,
  created_at DOUBLE PRECISION NOT NULL,
  expires_at DOUBLE PRECISION,
  revoked_at DOUBLE PRECISION,
  used_at DOUBLE PRECISION
);
CREATE INDEX keys_by_identity ON api_keys (identity);
