-- Who may come in through the page. Only digests (SHA-256) of the secrets are kept. Times are Unix seconds.
CREATE TABLE sign_in_links (
  digest TEXT PRIMARY KEY,
  expires_at REAL NOT NULL
) WITHOUT ROWID;

CREATE TABLE page_sessions (
  digest TEXT PRIMARY KEY,
  created_at REAL NOT NULL,
  expires_at REAL NOT NULL
) WITHOUT ROWID;
