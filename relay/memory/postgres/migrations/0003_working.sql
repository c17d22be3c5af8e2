-- 004, "Working Memory" and "Procedural Memory". Times are Unix seconds.
-- What an agent holds ready in one session. `place` is the order; `stored` the position of the event that holds the
-- whole content, `event_id`; content '' was left out to keep the budget.
CREATE TABLE memory_working (
  agent_id TEXT COLLATE "C" NOT NULL,
  session_id TEXT COLLATE "C" NOT NULL,
  place BIGINT NOT NULL,
  key TEXT COLLATE "C" NOT NULL,
  content TEXT COLLATE "C" NOT NULL,
  critical BIGINT NOT NULL,
  compressed BIGINT NOT NULL DEFAULT 0,
  stored BIGINT NOT NULL,
  event_id TEXT COLLATE "C" NOT NULL,
  updated_at DOUBLE PRECISION NOT NULL,
  PRIMARY KEY (agent_id, session_id, place),
  UNIQUE (agent_id, session_id, key)
);

-- How often an agent used a skill for tasks of a type, and how often it helped. steps: a JSON list of texts, NULL where
-- this agent told none.
CREATE TABLE memory_procedural (
  task_type TEXT COLLATE "C" NOT NULL,
  name TEXT COLLATE "C" NOT NULL,
  agent_id TEXT COLLATE "C" NOT NULL,
  uses BIGINT NOT NULL,
  successes BIGINT NOT NULL,
  steps TEXT COLLATE "C",
  steps_at DOUBLE PRECISION,
  updated_at DOUBLE PRECISION NOT NULL,
  PRIMARY KEY (task_type, name, agent_id)
);
CREATE INDEX skills_by_use ON memory_procedural (updated_at);

-- How a task that was done by a skill came out, so that it counts once.
CREATE TABLE memory_procedural_uses (
  task_id TEXT COLLATE "C" NOT NULL,
  name TEXT COLLATE "C" NOT NULL,
  task_type TEXT COLLATE "C" NOT NULL,
  agent_id TEXT COLLATE "C" NOT NULL,
  success BIGINT NOT NULL,
  at DOUBLE PRECISION NOT NULL,
  PRIMARY KEY (task_id, name)
);
