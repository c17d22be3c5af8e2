-- Two sessions of one agent may name the same path, and each takes back its own word only.
CREATE TABLE intents_by_session (
  agent TEXT NOT NULL,
  path TEXT NOT NULL,
  source TEXT NOT NULL,
  declared_at REAL NOT NULL,
  expires_at REAL NOT NULL,
  session TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (agent, path, source, session)
);
INSERT INTO intents_by_session (agent, path, source, declared_at, expires_at, session)
SELECT agent, path, source, declared_at, expires_at, session FROM declared_intents;
DROP TABLE declared_intents;
ALTER TABLE intents_by_session RENAME TO declared_intents;
