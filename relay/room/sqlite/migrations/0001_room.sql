-- Projections of the log that the room reads every day. `number` is the room's short number for people.
CREATE TABLE messages (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  pos INTEGER NOT NULL,
  event_id TEXT NOT NULL,
  ts TEXT NOT NULL,
  at REAL NOT NULL,
  speaker TEXT NOT NULL,
  kind TEXT NOT NULL,
  body TEXT NOT NULL,
  in_reply_to TEXT,
  addressed TEXT NOT NULL DEFAULT '[]',
  job INTEGER,
  meta TEXT NOT NULL DEFAULT '{}',
  client_id TEXT UNIQUE,
  plain_digest TEXT
);
CREATE UNIQUE INDEX messages_by_pos ON messages (pos);
CREATE INDEX messages_by_at ON messages (at);
CREATE INDEX messages_by_plain ON messages (plain_digest) WHERE plain_digest IS NOT NULL;

CREATE VIRTUAL TABLE messages_fts USING fts5(
  body, content='messages', content_rowid='number', tokenize='unicode61 remove_diacritics 2');
CREATE TRIGGER messages_indexed AFTER INSERT ON messages BEGIN
  INSERT INTO messages_fts (rowid, body) VALUES (new.number, new.body);
END;

-- Entries that are in the room but not yet seen in the transcript file, with the exact line to append.
CREATE TABLE outbox (
  message_id TEXT PRIMARY KEY,
  number INTEGER NOT NULL,
  line BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX outbox_by_number ON outbox (number);

-- Where the tail stands in the transcript. The digests of the bytes before `offset` tell continuation from
-- replacement.
CREATE TABLE tail (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  offset INTEGER NOT NULL,
  head_len INTEGER NOT NULL,
  head_sha TEXT NOT NULL,
  last_len INTEGER NOT NULL,
  last_sha TEXT NOT NULL,
  history_until INTEGER NOT NULL DEFAULT 0
);

-- One routing cycle for each message of a person that opens one.
-- state: routing | routed | absorbed | clarified | folded | steward | overruled
CREATE TABLE cycles (
  message_id TEXT PRIMARY KEY,
  number INTEGER NOT NULL,
  state TEXT NOT NULL,
  opened_at REAL NOT NULL,
  due_at REAL NOT NULL,
  decision TEXT,
  folded_into TEXT
) WITHOUT ROWID;
CREATE INDEX cycles_routing ON cycles (number) WHERE state = 'routing';

-- 002, section 1: the dispatch queue. state: pending | active | done | failed | skipped | dead
-- (`failed` = will be tried again at `not_before`).
CREATE TABLE dispatch_queue (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  message_id TEXT NOT NULL,
  agent TEXT NOT NULL,
  state TEXT NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  not_before REAL NOT NULL DEFAULT 0,
  lease_until REAL,
  holder TEXT,
  error TEXT,
  error_class TEXT,
  cause_event TEXT NOT NULL,
  answer_id TEXT,
  folded_into INTEGER,
  interrupted INTEGER NOT NULL DEFAULT 0,
  created_at REAL NOT NULL,
  started_at REAL,
  ended_at REAL,
  UNIQUE (message_id, agent)
);
CREATE INDEX dispatch_open ON dispatch_queue (agent, id) WHERE state IN ('pending', 'failed', 'active');

CREATE TABLE breakers (
  agent TEXT PRIMARY KEY,
  state TEXT NOT NULL,
  failures INTEGER NOT NULL,
  opened_at REAL,
  parked_until REAL
) WITHOUT ROWID;

-- What the room knows of an agent between turns: its conversation, and what it was shown.
CREATE TABLE agents (
  name TEXT PRIMARY KEY,
  paused INTEGER NOT NULL DEFAULT 0,
  session TEXT,
  resume TEXT,
  shown_number INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

-- One row a turn that ended, for budgets and the agents' log.
CREATE TABLE turns (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  agent TEXT NOT NULL,
  job INTEGER NOT NULL,
  started_at REAL NOT NULL,
  ended_at REAL NOT NULL,
  failure TEXT,
  input_tokens INTEGER NOT NULL DEFAULT 0,
  output_tokens INTEGER NOT NULL DEFAULT 0,
  cost_usd REAL NOT NULL DEFAULT 0
);
CREATE INDEX turns_by_agent ON turns (agent, started_at);
