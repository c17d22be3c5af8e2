-- What was verified (004, Verification Gateway): a row for each changeset, by its number in the room. `id`: the
-- changeset's; `source`: turn, task, handoff, exploration, landing, agent, github, person; `source_key`: makes it happen
-- once. `files`: the paths that it changes (JSON), NULL = not known yet; `about`: what its source knows (JSON). `state`:
-- queued, running, waiting (for a person), passed, failed, error, not_tested, cancelled. `tier`, `decides`: the highest
-- tier, and its policy.
CREATE TABLE verifications (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  source TEXT NOT NULL,
  source_key TEXT UNIQUE,
  agent TEXT NOT NULL,
  asker TEXT NOT NULL,
  branch TEXT NOT NULL,
  at_commit TEXT,
  base TEXT,
  tree TEXT,
  files TEXT,
  summary TEXT NOT NULL,
  task TEXT,
  about TEXT NOT NULL,
  state TEXT NOT NULL,
  tier INTEGER,
  decides TEXT,
  reason TEXT NOT NULL,
  at REAL NOT NULL,
  began REAL,
  ended REAL,
  cause TEXT
);
CREATE INDEX verifications_open ON verifications (number) WHERE state IN ('queued', 'running', 'waiting');
CREATE INDEX verifications_of_task ON verifications (task, number) WHERE task IS NOT NULL;
CREATE INDEX verifications_of_agent ON verifications (agent, number);

-- Each attempt of a policy: `state`: queued, running, waiting, passed, failed, timed_out, error, cancelled. `digest`:
-- SHA-256 of all that decides how it ends beside the tree; `always`: 1 = it decides whatever its tier. `head`, `tail`: the
-- first and the last 20 kB of `output_bytes`. `flaky`: 1 = it ended otherwise the second time. `sandboxed`: 1, 0, NULL =
-- nothing of ours ran; `reused`: the verification whose run it is.
CREATE TABLE verification_results (
  verification INTEGER NOT NULL,
  policy TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  tier INTEGER NOT NULL,
  executor TEXT NOT NULL,
  digest TEXT NOT NULL,
  tree TEXT NOT NULL,
  state TEXT NOT NULL,
  always INTEGER NOT NULL,
  reason TEXT NOT NULL,
  exit_code INTEGER,
  seconds REAL NOT NULL,
  head TEXT NOT NULL,
  tail TEXT NOT NULL,
  output_bytes INTEGER NOT NULL,
  flaky INTEGER NOT NULL,
  sandboxed INTEGER,
  reused INTEGER,
  url TEXT NOT NULL,
  began REAL,
  ended REAL,
  PRIMARY KEY (verification, policy, attempt)
);
CREATE INDEX verification_results_same ON verification_results (tree, digest) WHERE reused IS NULL AND state IN ('passed', 'failed');
CREATE INDEX verification_results_waiting ON verification_results (tree, digest) WHERE state = 'waiting';
CREATE INDEX verification_results_printed ON verification_results (ended) WHERE head <> '' OR tail <> '';

-- Policies that people made by `POST /policies`; those of files stand in their folder. `policy`: JSON.
CREATE TABLE verification_policies (
  name TEXT PRIMARY KEY,
  policy TEXT NOT NULL,
  maker TEXT NOT NULL,
  at REAL NOT NULL
);

-- What waits for a person, and what a person said. `state`: waiting, approved, rejected, expired, withdrawn. `policies`,
-- `files`: JSON lists.
CREATE TABLE approval_queue (
  number INTEGER PRIMARY KEY,
  verification INTEGER NOT NULL,
  policies TEXT NOT NULL,
  files TEXT NOT NULL,
  state TEXT NOT NULL,
  asker TEXT NOT NULL,
  agent TEXT NOT NULL,
  at REAL NOT NULL,
  expires REAL NOT NULL,
  decided_by TEXT,
  decided_at REAL,
  reason TEXT NOT NULL
);
CREATE INDEX approvals_waiting ON approval_queue (number) WHERE state = 'waiting';
CREATE INDEX approvals_of ON approval_queue (verification);

-- Branches that are to land on the main branch. `state`: asked (the work is not looked at yet), waiting, testing, landed,
-- put_out, cancelled. `at_commit`, `tree`: the work as it was then; `policies`: of those that it routes to, the names (JSON). `note`: what it waits
-- for; `held_on`: the commit of the main branch on which it is not tried again. `passed_over`: batches that others took
-- before it; `verification`: of the batch that it is or was tested in, `approval`: the one that a person looks at.
-- `landed_as`: its merge commit on the main branch; `output`: the lines of what failed.
CREATE TABLE landing_entries (
  number INTEGER PRIMARY KEY,
  agent TEXT NOT NULL,
  branch TEXT NOT NULL,
  at_commit TEXT NOT NULL,
  tree TEXT NOT NULL,
  asker TEXT NOT NULL,
  state TEXT NOT NULL,
  policies TEXT NOT NULL,
  note TEXT NOT NULL,
  held_on TEXT,
  passed_over INTEGER NOT NULL,
  verification INTEGER,
  approval INTEGER,
  task TEXT,
  landed_as TEXT,
  reason TEXT NOT NULL,
  output TEXT NOT NULL,
  at REAL NOT NULL,
  began REAL,
  ended REAL
);
CREATE UNIQUE INDEX landing_open ON landing_entries (agent) WHERE state IN ('asked', 'waiting', 'testing');
CREATE INDEX landing_of_agent ON landing_entries (agent, number);
