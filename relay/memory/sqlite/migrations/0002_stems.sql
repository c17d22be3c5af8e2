-- Memories are found by stems that are made before they come here (relay/memory/ranking/words.py), the same for every
-- engine. What was indexed until now is indexed anew at the first start, in batches.
DROP TABLE memory_episodic_fts;

-- event_id: the event that it was made from, else the one that recorded it. A memory that is forgotten keeps its row.
ALTER TABLE memory_episodic ADD COLUMN event_id TEXT;
ALTER TABLE memory_episodic ADD COLUMN imported_by TEXT;
ALTER TABLE memory_episodic ADD COLUMN forgotten_at REAL;
ALTER TABLE memory_episodic ADD COLUMN forgotten_by TEXT;

-- Which memories have a word, by `number`. A term is a stem, or says whose a memory is, of which type and tag
-- (relay/memory/ranking/words.py). No text and no place in it: these stand in memory_episodic_words.
CREATE VIRTUAL TABLE memory_episodic_fts USING fts5(terms, content='', detail=none, tokenize="ascii tokenchars '_'");

-- What a candidate is weighed by: the stems of its summary and of all else, each in its order with a space on either
-- side, and how many these are. `at` is when it happened.
CREATE TABLE memory_episodic_words (
  number INTEGER PRIMARY KEY,
  agent_id TEXT NOT NULL,
  session_id TEXT NOT NULL,
  at REAL NOT NULL,
  outcome TEXT NOT NULL,
  useful INTEGER NOT NULL DEFAULT 0,
  useless INTEGER NOT NULL DEFAULT 0,
  summary_count INTEGER NOT NULL,
  body_count INTEGER NOT NULL,
  summary TEXT NOT NULL,
  body TEXT NOT NULL
);
CREATE INDEX memories_in_session ON memory_episodic_words (session_id, at, number);

-- In how many memories of a kind a stem is. What begins with `_` counts all of them and their words.
CREATE TABLE memory_word_counts (
  kind TEXT NOT NULL,
  word TEXT NOT NULL,
  n INTEGER NOT NULL,
  PRIMARY KEY (kind, word)
) WITHOUT ROWID;

-- The keys under which memories were imported, and the events that they were made from. Each is there once.
CREATE TABLE memory_keys (
  key TEXT PRIMARY KEY,
  number INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX memory_keys_of ON memory_keys (number, key);
CREATE TABLE memory_events (
  event_id TEXT PRIMARY KEY,
  number INTEGER NOT NULL
) WITHOUT ROWID;

-- Whether a memory helped, as its readers say: the last word of each.
CREATE TABLE memory_feedback (
  number INTEGER NOT NULL,
  agent_id TEXT NOT NULL,
  useful INTEGER NOT NULL,
  note TEXT,
  at REAL NOT NULL,
  PRIMARY KEY (number, agent_id)
) WITHOUT ROWID;

-- Memories that are still to be indexed.
CREATE TABLE memory_unindexed (
  number INTEGER PRIMARY KEY
);
INSERT INTO memory_unindexed (number) SELECT number FROM memory_episodic;
