-- 004, "Episodic Memory": experiences and their outcomes. details: JSON; lessons and tags: JSON lists of texts.
-- `merged` counts how often it was stored. Times are Unix seconds.
CREATE TABLE memory_episodic (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  agent_id TEXT NOT NULL,
  session_id TEXT NOT NULL,
  event_type TEXT NOT NULL,
  summary TEXT NOT NULL,
  details TEXT NOT NULL DEFAULT '[]',
  outcome TEXT,
  lessons TEXT NOT NULL DEFAULT '[]',
  tags TEXT NOT NULL DEFAULT '[]',
  merged INTEGER NOT NULL DEFAULT 1,
  created_at REAL NOT NULL,
  updated_at REAL NOT NULL
);
CREATE INDEX memories_alike ON memory_episodic (agent_id, event_type, summary, updated_at);
CREATE INDEX memories_by_time ON memory_episodic (updated_at, number);

-- Found by its words, by `number`; `_`, `/`, `.` and `-` part words, so `src/app.py` and `get_user` are phrases.
CREATE VIRTUAL TABLE memory_episodic_fts USING fts5(text, tokenize='porter unicode61 remove_diacritics 2');
