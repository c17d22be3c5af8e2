-- The sessions of people's own programs that `relay attach` let into the room. `id` is the program's own; in the room
-- the session is (agent_id, session_id). Two of them that are not gone never share a name.
CREATE TABLE attached_sessions (
  program TEXT NOT NULL,
  id TEXT NOT NULL,
  agent_id TEXT NOT NULL,
  session_id TEXT NOT NULL,
  person TEXT NOT NULL,
  checkout TEXT NOT NULL,
  branch TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('working', 'waiting', 'idle', 'gone')),
  since REAL NOT NULL,
  started_at REAL NOT NULL,
  heard_at REAL NOT NULL,
  tool TEXT NOT NULL DEFAULT '',
  paths TEXT NOT NULL DEFAULT '[]',
  process TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (program, id)
) STRICT;
CREATE UNIQUE INDEX attached_names ON attached_sessions (agent_id) WHERE state <> 'gone';
CREATE INDEX attached_by_session ON attached_sessions (agent_id, session_id);
