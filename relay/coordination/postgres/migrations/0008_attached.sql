-- The sessions of people's own programs that `relay attach` let into the room. `id` is the program's own; in the room
-- the session is (agent_id, session_id). Two of them that are not gone never share a name.
CREATE TABLE attached_sessions (
  program text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  agent_id text COLLATE "C" NOT NULL,
  session_id text COLLATE "C" NOT NULL,
  person text COLLATE "C" NOT NULL,
  checkout text COLLATE "C" NOT NULL,
  branch text COLLATE "C" NOT NULL,
  state text COLLATE "C" NOT NULL CHECK (state IN ('working', 'waiting', 'idle', 'gone')),
  since double precision NOT NULL,
  started_at double precision NOT NULL,
  heard_at double precision NOT NULL,
  tool text COLLATE "C" NOT NULL DEFAULT '',
  paths text COLLATE "C" NOT NULL DEFAULT '[]',
  process text COLLATE "C" NOT NULL DEFAULT '',
  PRIMARY KEY (program, id)
);
CREATE UNIQUE INDEX attached_names ON attached_sessions (agent_id) WHERE state <> 'gone';
CREATE INDEX attached_by_session ON attached_sessions (agent_id, session_id);
