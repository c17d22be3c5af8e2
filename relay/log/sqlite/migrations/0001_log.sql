-- The one log. `id` is the SHA-256 of the canonical body; `inputs` and `outputs` are payloads, which enter the
-- body as their digest. `pos` is this database's commit order and every reader's cursor; it is not hashed.
CREATE TABLE events (
  pos INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  v INTEGER NOT NULL,
  session TEXT NOT NULL,
  lane TEXT NOT NULL,
  seq INTEGER NOT NULL,
  type TEXT NOT NULL,
  prev TEXT,
  parents TEXT NOT NULL,
  causal_deps TEXT NOT NULL,
  clock TEXT NOT NULL,
  role TEXT,
  branch TEXT,
  snapshot TEXT,
  file_touches TEXT,
  inputs TEXT,
  outputs TEXT,
  source_key TEXT UNIQUE,
  at TEXT NOT NULL,
  UNIQUE (session, lane, seq)
);
CREATE INDEX events_by_type ON events (type, pos);

-- Where every lane stands. A short lane (a cycle of the room) never enters another lane's clock; a spawned one
-- does until it is folded. Both leave exits.
CREATE TABLE lanes (
  session TEXT NOT NULL,
  lane TEXT NOT NULL,
  seq INTEGER NOT NULL,
  head TEXT NOT NULL,
  clock TEXT NOT NULL,
  short INTEGER NOT NULL DEFAULT 0,
  parent TEXT,
  depth INTEGER NOT NULL DEFAULT 0,
  open_children INTEGER NOT NULL DEFAULT 0,
  folded INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (session, lane)
) WITHOUT ROWID;

CREATE TABLE lane_exits (
  lane TEXT NOT NULL,
  seq INTEGER NOT NULL,
  into_lane TEXT NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY (lane, seq, into_lane, at)
) WITHOUT ROWID;

CREATE TABLE followers (
  name TEXT PRIMARY KEY,
  pos INTEGER NOT NULL,
  failing_event TEXT,
  failures INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

CREATE TABLE parked_events (
  follower TEXT NOT NULL,
  event_id TEXT NOT NULL,
  error TEXT NOT NULL,
  at TEXT NOT NULL,
  PRIMARY KEY (follower, event_id)
) WITHOUT ROWID;

CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
