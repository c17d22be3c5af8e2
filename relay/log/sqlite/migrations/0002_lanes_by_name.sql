-- The lanes of an agent or a person in all sessions. Those of the room's bookkeeping are many, and nobody's.
CREATE INDEX lanes_by_name ON lanes (lane, session) WHERE short = 0;
