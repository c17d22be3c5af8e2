-- Memories are found by stems that are made before they come here (relay/memory/ranking/words.py), the same for every
-- engine. What was indexed until now is indexed anew at the first start, in batches.
TRUNCATE memory_episodic_fts;
DROP FUNCTION relay_any_of(text);
DROP TEXT SEARCH CONFIGURATION relay_stems;
DROP TEXT SEARCH DICTIONARY relay_stem;

-- event_id: the event that it was made from, else the one that recorded it. A memory that is forgotten keeps its row.
ALTER TABLE memory_episodic
  ADD COLUMN event_id TEXT COLLATE "C",
  ADD COLUMN imported_by TEXT COLLATE "C",
  ADD COLUMN forgotten_at DOUBLE PRECISION,
  ADD COLUMN forgotten_by TEXT COLLATE "C";

-- memory_episodic_fts: which memories have a word, by `number`. A term is a stem, or says whose a memory is, of which
-- type and tag (relay/memory/ranking/words.py). No text and no place in it: these stand in memory_episodic_words.

-- What a candidate is weighed by: the stems of its summary and of all else, each in its order with a space on either
-- side, and how many these are. `at` is when it happened.
CREATE TABLE memory_episodic_words (
  number BIGINT PRIMARY KEY,
  agent_id TEXT COLLATE "C" NOT NULL,
  session_id TEXT COLLATE "C" NOT NULL,
  at DOUBLE PRECISION NOT NULL,
  outcome TEXT COLLATE "C" NOT NULL,
  useful BIGINT NOT NULL DEFAULT 0,
  useless BIGINT NOT NULL DEFAULT 0,
  summary_count BIGINT NOT NULL,
  body_count BIGINT NOT NULL,
  summary TEXT COLLATE "C" NOT NULL,
  body TEXT COLLATE "C" NOT NULL
);
CREATE INDEX memories_in_session ON memory_episodic_words (session_id, at, number);

-- In how many memories of a kind a stem is. What begins with `_` counts all of them and their words.
CREATE TABLE memory_word_counts (
  kind TEXT COLLATE "C" NOT NULL,
  word TEXT COLLATE "C" NOT NULL,
  n BIGINT NOT NULL,
  PRIMARY KEY (kind, word)
) WITH (fillfactor = 70);

-- The keys under which memories were imported, and the events that they were made from. Each is there once.
CREATE TABLE memory_keys (
  key TEXT COLLATE "C" PRIMARY KEY,
  number BIGINT NOT NULL
);
CREATE INDEX memory_keys_of ON memory_keys (number, key);
CREATE TABLE memory_events (
  event_id TEXT COLLATE "C" PRIMARY KEY,
  number BIGINT NOT NULL
);

-- Whether a memory helped, as its readers say: the last word of each.
CREATE TABLE memory_feedback (
  number BIGINT NOT NULL,
  agent_id TEXT COLLATE "C" NOT NULL,
  useful BIGINT NOT NULL,
  note TEXT COLLATE "C",
  at DOUBLE PRECISION NOT NULL,
  PRIMARY KEY (number, agent_id)
);

-- Memories that are still to be indexed.
CREATE TABLE memory_unindexed (
  number BIGINT PRIMARY KEY
);
INSERT INTO memory_unindexed (number) SELECT number FROM memory_episodic;
