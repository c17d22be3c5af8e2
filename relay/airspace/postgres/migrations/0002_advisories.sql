-- The advisories. `body` is the whole of one (relay.airspace.advisory), its latched order in it; the columns
-- beside it are what is asked for. `founders`: the pair that it opened for. At most one is open for a pair: who
-- opens it first has latched the right of way, and a second daemon finds it so.
CREATE TABLE advisories (
  id TEXT COLLATE "C" PRIMARY KEY,
  founders TEXT COLLATE "C" NOT NULL,
  opened_at DOUBLE PRECISION NOT NULL,
  closed_at DOUBLE PRECISION,
  worst BIGINT NOT NULL,
  said INTEGER NOT NULL DEFAULT 0,
  outcome TEXT COLLATE "C",
  mark TEXT COLLATE "C",
  body TEXT COLLATE "C" NOT NULL
);
CREATE UNIQUE INDEX advisories_open ON advisories (founders) WHERE closed_at IS NULL;
CREATE INDEX advisories_by_time ON advisories (opened_at, id);
CREATE INDEX advisories_by_end ON advisories (closed_at);
CREATE INDEX advisories_counted ON advisories (said, worst, outcome, mark);

-- Which messages of the room are about an advisory and ask for an answer.
CREATE TABLE advisory_messages (
  message_id TEXT COLLATE "C" PRIMARY KEY,
  advisory_id TEXT COLLATE "C" NOT NULL
);

-- How a pair of agents stands (relay.airspace.advisories.Track), while it is not clear or was said lately.
CREATE TABLE advisory_pairs (
  a TEXT COLLATE "C" NOT NULL,
  b TEXT COLLATE "C" NOT NULL,
  track TEXT COLLATE "C" NOT NULL,
  changed_at DOUBLE PRECISION NOT NULL,
  PRIMARY KEY (a, b)
);

-- What agents say they are about to touch. source: answer | command | agent.
CREATE TABLE declared_intents (
  agent TEXT COLLATE "C" NOT NULL,
  path TEXT COLLATE "C" NOT NULL,
  source TEXT COLLATE "C" NOT NULL,
  declared_at DOUBLE PRECISION NOT NULL,
  expires_at DOUBLE PRECISION NOT NULL,
  PRIMARY KEY (agent, path, source)
);

-- Where the samples of the airspace's history stand in the log.
CREATE TABLE airspace_samples (
  pos BIGINT PRIMARY KEY,
  at DOUBLE PRECISION NOT NULL
);
CREATE INDEX airspace_samples_by_time ON airspace_samples (at);
