-- One task that is done in several ways, to keep the best (003, section 5): a row each, by its number in the room. `state`:
-- running (variants are at work), comparing, reviewing (an agent chooses), waiting (people choose), merging, done, ended.
-- `config`: what was asked for (JSON); `base`: the commit from which every variant began; `matrix`: each compared variant's
-- share of each metric (JSON); `taken`: files of the winner that are from another variant (JSON, path to name); `merged`:
-- the commit that brought the winner in; `trouble`: why it could not be merged. `asker`: who ordered it.
CREATE TABLE explorations (
  number BIGINT PRIMARY KEY,
  state TEXT COLLATE "C" NOT NULL,
  config TEXT COLLATE "C" NOT NULL,
  asker TEXT COLLATE "C" NOT NULL,
  cause TEXT COLLATE "C",
  at TEXT COLLATE "C" NOT NULL,
  base TEXT COLLATE "C",
  winner TEXT COLLATE "C",
  recommendation TEXT COLLATE "C" NOT NULL,
  matrix TEXT COLLATE "C" NOT NULL,
  taken TEXT COLLATE "C" NOT NULL,
  merged TEXT COLLATE "C",
  trouble TEXT COLLATE "C" NOT NULL
);
CREATE INDEX explorations_open ON explorations (number) WHERE state NOT IN ('done', 'ended');

-- Each variant (003, `VariantResult`). `status`: waiting, in_progress, completed, budget_exceeded (`detail`: which limit),
-- failed (`detail`: why). `attempt`: how often its agent was started. `seconds`, `tokens`, `tool_calls`, `cost_usd`: what it
-- used, NULL = its agent does not tell. `conversation`: the agent's own id, to go on with. `at_commit`, `tree`: what it left;
-- `ref`: what keeps it. `metrics`: figures by name, `notes`: why one is missing (JSON). `passing`: 1 = its tests pass, 0 = they
-- do not, NULL = none has run.
CREATE TABLE exploration_variants (
  exploration BIGINT NOT NULL,
  name TEXT COLLATE "C" NOT NULL,
  place BIGINT NOT NULL,
  agent TEXT COLLATE "C" NOT NULL,
  branch TEXT COLLATE "C" NOT NULL,
  status TEXT COLLATE "C" NOT NULL,
  detail TEXT COLLATE "C" NOT NULL,
  attempt BIGINT NOT NULL,
  seconds DOUBLE PRECISION NOT NULL,
  tokens BIGINT,
  tool_calls BIGINT NOT NULL,
  cost_usd DOUBLE PRECISION,
  events BIGINT NOT NULL,
  conversation TEXT COLLATE "C",
  at_commit TEXT COLLATE "C",
  tree TEXT COLLATE "C",
  ref TEXT COLLATE "C",
  files BIGINT,
  metrics TEXT COLLATE "C" NOT NULL,
  notes TEXT COLLATE "C" NOT NULL,
  passing BIGINT,
  score DOUBLE PRECISION,
  PRIMARY KEY (exploration, name)
);
