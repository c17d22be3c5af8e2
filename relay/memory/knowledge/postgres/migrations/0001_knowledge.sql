-- 003, section 7.3: what agents and people found out or decided, made from the log. `number`: the place in the log of the
-- event that it comes from, times 1000, and its position there. Times are Unix seconds. `topics`, `files`, `alternatives`:
-- JSON lists. `extracted_by`: rule, person or llm. `audience`: who may read it (`knowledge_readers`; 0: everybody). `closed_by`:
-- the id of what contradicts or supersedes it. `statement`: a digest of its words, without a negation. `words`, `other_words`:
-- stems of the content, and of the rest.
CREATE TABLE knowledge_entries (
  number BIGINT PRIMARY KEY,
  id TEXT COLLATE "C" NOT NULL UNIQUE,
  kind TEXT COLLATE "C" NOT NULL,
  content TEXT COLLATE "C" NOT NULL,
  agent_id TEXT COLLATE "C" NOT NULL,
  event_id TEXT COLLATE "C" NOT NULL,
  topics TEXT COLLATE "C" NOT NULL,
  files TEXT COLLATE "C" NOT NULL,
  confidence DOUBLE PRECISION NOT NULL,
  rationale TEXT COLLATE "C",
  alternatives TEXT COLLATE "C" NOT NULL,
  severity TEXT COLLATE "C",
  extracted_by TEXT COLLATE "C" NOT NULL,
  audience BIGINT NOT NULL,
  created_at DOUBLE PRECISION NOT NULL,
  validated_at DOUBLE PRECISION,
  valid_from DOUBLE PRECISION NOT NULL,
  valid_to DOUBLE PRECISION,
  closed_by TEXT COLLATE "C",
  statement TEXT COLLATE "C",
  words TEXT COLLATE "C" NOT NULL,
  other_words TEXT COLLATE "C" NOT NULL
);
CREATE INDEX knowledge_by_time ON knowledge_entries (valid_from, number, audience);
CREATE INDEX knowledge_by_kind ON knowledge_entries (kind, valid_from, number, audience);
CREATE INDEX knowledge_by_agent ON knowledge_entries (agent_id, valid_from, number, audience);
CREATE INDEX knowledge_by_agent_and_kind ON knowledge_entries (agent_id, kind, valid_from, number, audience);
CREATE INDEX knowledge_by_statement ON knowledge_entries (statement, number) WHERE statement IS NOT NULL;

-- The source relates to the target: both are numbers of entries.
CREATE TABLE knowledge_relations (
  source BIGINT NOT NULL,
  relation TEXT COLLATE "C" NOT NULL,
  target BIGINT NOT NULL,
  PRIMARY KEY (source, target, relation)
);
CREATE INDEX knowledge_relations_by_target ON knowledge_relations (target, source, relation);

-- Who may read what (003, section 7.6): an audience is the same owner, visibility and names (JSON). `reader`: `@NAME`, or `role:NAME`.
-- Audience 0 is everybody, and has no row.
CREATE TABLE knowledge_audiences (
  audience BIGINT PRIMARY KEY,
  agent_id TEXT COLLATE "C" NOT NULL,
  visibility TEXT COLLATE "C" NOT NULL,
  names TEXT COLLATE "C" NOT NULL,
  UNIQUE (agent_id, visibility, names)
);
CREATE TABLE knowledge_readers (
  reader TEXT COLLATE "C" NOT NULL,
  audience BIGINT NOT NULL,
  PRIMARY KEY (reader, audience)
);
-- The roles of the agents, as the configuration has them.
CREATE TABLE knowledge_roles (
  agent_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  role TEXT COLLATE "C" NOT NULL
);

-- Each word of each entry, the newest found without a look at the entries; and of how many entries of an audience it is one.
-- The word '' counts the entries themselves.
CREATE TABLE knowledge_words (
  word TEXT COLLATE "C" NOT NULL,
  valid_from DOUBLE PRECISION NOT NULL,
  number BIGINT NOT NULL,
  agent_id TEXT COLLATE "C" NOT NULL,
  kind TEXT COLLATE "C" NOT NULL,
  audience BIGINT NOT NULL,
  PRIMARY KEY (word, valid_from, number)
);
CREATE INDEX knowledge_words_by_agent ON knowledge_words (word, agent_id, kind, valid_from, number, audience);
CREATE TABLE knowledge_counts (
  word TEXT COLLATE "C" NOT NULL,
  audience BIGINT NOT NULL,
  entries BIGINT NOT NULL,
  PRIMARY KEY (word, audience)
);

-- The files of each entry. `origin`: the path that the file had before, where the entry is of its renaming.
CREATE TABLE knowledge_files (
  path TEXT COLLATE "C" NOT NULL,
  valid_from DOUBLE PRECISION NOT NULL,
  number BIGINT NOT NULL,
  audience BIGINT NOT NULL,
  origin TEXT COLLATE "C",
  PRIMARY KEY (path, valid_from, number)
);
CREATE INDEX knowledge_renames_from ON knowledge_files (origin, valid_from, path) WHERE origin IS NOT NULL;
CREATE INDEX knowledge_renames_to ON knowledge_files (path, valid_from, origin) WHERE origin IS NOT NULL;

-- Who has read an entry, and when first; `event_id` of a message that names it, '' for a reading. Readings are no part of the
-- log, so a rebuild keeps them.
CREATE TABLE knowledge_uses (
  id TEXT COLLATE "C" NOT NULL,
  agent_id TEXT COLLATE "C" NOT NULL,
  event_id TEXT COLLATE "C" NOT NULL DEFAULT '',
  at DOUBLE PRECISION NOT NULL,
  PRIMARY KEY (id, agent_id, event_id)
);
