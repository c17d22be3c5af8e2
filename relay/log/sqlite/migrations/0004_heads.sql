-- What a page of a lane shows of each event, in the order of the lane: such a page reads no row of the log, whose payloads
-- may be large.
CREATE INDEX events_heads ON events (session, lane, seq, type, id, at, role, branch, snapshot, file_touches);
