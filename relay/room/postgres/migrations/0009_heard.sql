-- When the agent heard the message inside a running turn (Unix seconds), and after which tool, '' = after none. Both
-- NULL: it comes with a turn's prompt.
ALTER TABLE dispatch_queue ADD COLUMN heard_at DOUBLE PRECISION;
ALTER TABLE dispatch_queue ADD COLUMN heard_after TEXT COLLATE "C";
CREATE INDEX dispatch_heard ON dispatch_queue (agent, id) WHERE heard_at IS NOT NULL;
