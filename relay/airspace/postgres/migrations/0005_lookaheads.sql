-- What was foretold of a pair of agents (relay/airspace/foretold.py), from when it was first drawn or told at an edit.
-- outcome: open | true | false | unknown. At most one is open for a pair. `worked`: JSON, which of the two have had
-- changes since; `asked`: 1 when git could say of the last look whether it merges both.
CREATE TABLE lookaheads (
  a TEXT COLLATE "C" NOT NULL,
  b TEXT COLLATE "C" NOT NULL,
  began_at DOUBLE PRECISION NOT NULL,
  ended_at DOUBLE PRECISION,
  outcome TEXT COLLATE "C" NOT NULL DEFAULT 'open',
  worked TEXT COLLATE "C" NOT NULL DEFAULT '[]',
  asked INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (a, b, began_at)
);
CREATE UNIQUE INDEX lookaheads_open ON lookaheads (a, b) WHERE outcome = 'open';
CREATE INDEX lookaheads_by_outcome ON lookaheads (outcome);

-- Which agent was told at an edit of a file that another has it in hand, or that the two may collide there: said once.
CREATE TABLE told_edits (
  agent TEXT COLLATE "C" NOT NULL,
  other TEXT COLLATE "C" NOT NULL,
  path TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (agent, other, path)
);
