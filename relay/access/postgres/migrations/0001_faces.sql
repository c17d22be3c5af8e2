-- Who may come in through the page. Only digests (SHA-256) of the secrets are kept. Times are Unix seconds.
CREATE TABLE sign_in_links (
  digest TEXT COLLATE "C" PRIMARY KEY,
  expires_at DOUBLE PRECISION NOT NULL
);

CREATE TABLE page_sessions (
  digest TEXT COLLATE "C" PRIMARY KEY,
  created_at DOUBLE PRECISION NOT NULL,
  expires_at DOUBLE PRECISION NOT NULL
);
