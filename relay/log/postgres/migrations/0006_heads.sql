-- A page of a lane finds its events by this index alone. It has not what SQLite's has besides: an entry of an index has
-- 2,704 bytes at most, and a list of files may be longer.
CREATE INDEX events_heads ON events (session, lane, seq) INCLUDE (type, pos);
