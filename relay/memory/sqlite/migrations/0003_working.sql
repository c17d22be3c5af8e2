-- 004, "Working Memory" and "Procedural Memory". Times are Unix seconds.
-- What an agent holds ready in one session. `place` is the order; `stored` the position of the event that holds the
-- whole content, `event_id`; content '' was left out to keep the budget.
CREATE TABLE memory_working (
  agent_id TEXT NOT NULL,
  session_id TEXT NOT NULL,
  place INTEGER NOT NULL,
  key TEXT NOT NULL,
  content TEXT NOT NULL,
  critical INTEGER NOT NULL,
  compressed INTEGER NOT NULL DEFAULT 0,
  stored INTEGER NOT NULL,
  event_id TEXT NOT NULL,
  updated_at REAL NOT NULL,
  PRIMARY KEY (agent_id, session_id, place),
  UNIQUE (agent_id, session_id, key)
) WITHOUT ROWID;

-- How often an agent used a skill for tasks of a type, and how often it helped. steps: a JSON list of texts, NULL where
-- this agent told none.
CREATE TABLE memory_procedural (
  task_type TEXT NOT NULL,
  name TEXT NOT NULL,
  agent_id TEXT NOT NULL,
  uses INTEGER NOT NULL,
  successes INTEGER NOT NULL,
  steps TEXT,
  steps_at REAL,
  updated_at REAL NOT NULL,
  PRIMARY KEY (task_type, name, agent_id)
) WITHOUT ROWID;
CREATE INDEX skills_by_use ON memory_procedural (updated_at);

-- How a task that was done by a skill came out, so that it counts once.
CREATE TABLE memory_procedural_uses (
  task_id TEXT NOT NULL,
  name TEXT NOT NULL,
  task_type TEXT NOT NULL,
  agent_id TEXT NOT NULL,
  success INTEGER NOT NULL,
  at REAL NOT NULL,
  PRIMARY KEY (task_id, name)
) WITHOUT ROWID;
