-- How far an agent's session read the room by its own call, and the events of what it read since it last spoke (a
-- JSON list, bounded): its next entry has seen them. A reader's cursor, like a follower's: no fact of the room.
CREATE TABLE read_marks (
  agent_id TEXT COLLATE "C" NOT NULL,
  session_id TEXT COLLATE "C" NOT NULL,
  upto BIGINT NOT NULL,
  seen TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (agent_id, session_id)
);
