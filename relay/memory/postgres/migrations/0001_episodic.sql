-- 004, "Episodic Memory": experiences and their outcomes. details: JSON; lessons and tags: JSON lists of texts.
-- `merged` counts how often it was stored. Times are Unix seconds.
CREATE TABLE memory_episodic (
  number BIGINT PRIMARY KEY,
  id TEXT COLLATE "C" NOT NULL UNIQUE,
  agent_id TEXT COLLATE "C" NOT NULL,
  session_id TEXT COLLATE "C" NOT NULL,
  event_type TEXT COLLATE "C" NOT NULL,
  summary TEXT COLLATE "C" NOT NULL,
  details TEXT COLLATE "C" NOT NULL DEFAULT '[]',
  outcome TEXT COLLATE "C",
  lessons TEXT COLLATE "C" NOT NULL DEFAULT '[]',
  tags TEXT COLLATE "C" NOT NULL DEFAULT '[]',
  merged BIGINT NOT NULL DEFAULT 1,
  created_at DOUBLE PRECISION NOT NULL,
  updated_at DOUBLE PRECISION NOT NULL
);
CREATE INDEX memories_alike ON memory_episodic (agent_id, event_type, summary, updated_at);
CREATE INDEX memories_by_time ON memory_episodic (updated_at, number);

-- English stems and no word left out: which words say nothing is decided before (relay.memory.relevance). What
-- comes here are words in small letters with spaces between them.
CREATE TEXT SEARCH DICTIONARY relay_stem (TEMPLATE = pg_catalog.snowball, Language = english);
CREATE TEXT SEARCH CONFIGURATION relay_stems (COPY = pg_catalog.simple);
ALTER TEXT SEARCH CONFIGURATION relay_stems
  ALTER MAPPING FOR asciiword, word, numword, hword, hword_part, hword_asciipart, asciihword, numhword, hword_numpart
  WITH relay_stem;

-- What is looked for, as a JSON list of words and phrases: any of them.
CREATE FUNCTION relay_any_of(looked text) RETURNS tsquery LANGUAGE sql STABLE AS $$
  SELECT CAST(string_agg('(' || CAST(phraseto_tsquery('relay_stems', one) AS text) || ')', ' | ') AS tsquery)
  FROM jsonb_array_elements_text(CAST(looked AS jsonb)) AS l (one)
  WHERE numnode(phraseto_tsquery('relay_stems', one)) > 0
$$;

-- Found by its words, by `number`; `_`, `/`, `.` and `-` part words, so `src/app.py` and `get_user` are phrases.
CREATE TABLE memory_episodic_fts (
  number BIGINT PRIMARY KEY,
  words TSVECTOR NOT NULL
);
CREATE INDEX memories_by_words ON memory_episodic_fts USING gin (words);
