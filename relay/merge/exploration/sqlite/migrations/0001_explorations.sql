-- One task that is done in several ways, to keep the best (003, section 5): a row each, by its number in the room. `state`:
-- running (variants are at work), comparing, reviewing (an agent chooses), waiting (people choose), merging, done, ended.
-- `config`: what was asked for (JSON); `base`: the commit from which every variant began; `matrix`: each compared variant's
-- share of each metric (JSON); `taken`: files of the winner that are from another variant (JSON, path to name); `merged`:
-- the commit that brought the winner in; `trouble`: why it could not be merged. `asker`: who ordered it.
CREATE TABLE explorations (
  number INTEGER PRIMARY KEY,
  state TEXT NOT NULL,
  config TEXT NOT NULL,
  asker TEXT NOT NULL,
  cause TEXT,
  at TEXT NOT NULL,
  base TEXT,
  winner TEXT,
  recommendation TEXT NOT NULL,
  matrix TEXT NOT NULL,
  taken TEXT NOT NULL,
  merged TEXT,
  trouble TEXT NOT NULL
);
CREATE INDEX explorations_open ON explorations (number) WHERE state NOT IN ('done', 'ended');

-- Each variant (003, `VariantResult`). `status`: waiting, in_progress, completed, budget_exceeded (`detail`: which limit),
-- failed (`detail`: why). `attempt`: how often its agent was started. `seconds`, `tokens`, `tool_calls`, `cost_usd`: what it
-- used, NULL = its agent does not tell. `conversation`: the agent's own id, to go on with. `at_commit`, `tree`: what it left;
-- `ref`: what keeps it. `metrics`: figures by name, `notes`: why one is missing (JSON). `passing`: 1 = its tests pass, 0 = they
-- do not, NULL = none has run.
CREATE TABLE exploration_variants (
  exploration INTEGER NOT NULL,
  name TEXT NOT NULL,
  place INTEGER NOT NULL,
  agent TEXT NOT NULL,
  branch TEXT NOT NULL,
  status TEXT NOT NULL,
  detail TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  seconds REAL NOT NULL,
  tokens INTEGER,
  tool_calls INTEGER NOT NULL,
  cost_usd REAL,
  events INTEGER NOT NULL,
  conversation TEXT,
  at_commit TEXT,
  tree TEXT,
  ref TEXT,
  files INTEGER,
  metrics TEXT NOT NULL,
  notes TEXT NOT NULL,
  passing INTEGER,
  score REAL,
  PRIMARY KEY (exploration, name)
) WITHOUT ROWID;
