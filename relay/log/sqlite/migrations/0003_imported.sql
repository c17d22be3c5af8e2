-- What the row of an event that another replica recorded does not say: whose it is, and the SHA-256 of the payloads that
-- stayed there (NULL: the payload is here, or there is none).
CREATE TABLE imported_events (
  pos INTEGER PRIMARY KEY,
  origin TEXT NOT NULL,
  inputs TEXT,
  outputs TEXT
);

-- Causes of imported events that stayed where they were recorded, since their lanes are private.
CREATE TABLE event_stubs (
  id TEXT PRIMARY KEY,
  session TEXT NOT NULL,
  lane TEXT NOT NULL,
  seq INTEGER NOT NULL,
  parents TEXT NOT NULL
) WITHOUT ROWID;
