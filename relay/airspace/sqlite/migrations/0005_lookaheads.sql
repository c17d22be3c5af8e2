-- What was foretold of a pair of agents (relay/airspace/foretold.py), from when it was first drawn or told at an edit.
-- outcome: open | true | false | unknown. At most one is open for a pair. `worked`: JSON, which of the two have had
-- changes since; `asked`: 1 when git could say of the last look whether it merges both.
CREATE TABLE lookaheads (
  a TEXT NOT NULL,
  b TEXT NOT NULL,
  began_at REAL NOT NULL,
  ended_at REAL,
  outcome TEXT NOT NULL DEFAULT 'open',
  worked TEXT NOT NULL DEFAULT '[]',
  asked INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (a, b, began_at)
);
CREATE UNIQUE INDEX lookaheads_open ON lookaheads (a, b) WHERE outcome = 'open';
CREATE INDEX lookaheads_by_outcome ON lookaheads (outcome);

-- Which agent was told at an edit of a file that another has it in hand, or that the two may collide there: said once.
CREATE TABLE told_edits (
  agent TEXT NOT NULL,
  other TEXT NOT NULL,
  path TEXT NOT NULL,
  PRIMARY KEY (agent, other, path)
);
