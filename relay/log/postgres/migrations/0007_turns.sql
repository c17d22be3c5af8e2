-- The turns of a lane: a lane of thousands of events may have none.
CREATE INDEX events_turns ON events (session, lane, seq) WHERE type = 'turn.started';
