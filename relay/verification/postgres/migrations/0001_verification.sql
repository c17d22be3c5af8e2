-- What was verified (004, Verification Gateway): a row for each changeset, by its number in the room. `id`: the
-- changeset's; `source`: turn, task, handoff, exploration, landing, agent, github, person; `source_key`: makes it happen
-- once. `files`: the paths that it changes (JSON), NULL = not known yet; `about`: what its source knows (JSON). `state`:
-- queued, running, waiting (for a person), passed, failed, error, not_tested, cancelled. `tier`, `decides`: the highest
-- tier, and its policy.
CREATE TABLE verifications (
  number BIGINT PRIMARY KEY,
  id TEXT COLLATE "C" NOT NULL UNIQUE,
  source TEXT COLLATE "C" NOT NULL,
  source_key TEXT COLLATE "C" UNIQUE,
  agent TEXT COLLATE "C" NOT NULL,
  asker TEXT COLLATE "C" NOT NULL,
  branch TEXT COLLATE "C" NOT NULL,
  at_commit TEXT COLLATE "C",
  base TEXT COLLATE "C",
  tree TEXT COLLATE "C",
  files TEXT COLLATE "C",
  summary TEXT COLLATE "C" NOT NULL,
  task TEXT COLLATE "C",
  about TEXT COLLATE "C" NOT NULL,
  state TEXT COLLATE "C" NOT NULL,
  tier BIGINT,
  decides TEXT COLLATE "C",
  reason TEXT COLLATE "C" NOT NULL,
  at DOUBLE PRECISION NOT NULL,
  began DOUBLE PRECISION,
  ended DOUBLE PRECISION,
  cause TEXT COLLATE "C"
);
CREATE INDEX verifications_open ON verifications (number) WHERE state IN ('queued', 'running', 'waiting');
CREATE INDEX verifications_of_task ON verifications (task, number) WHERE task IS NOT NULL;
CREATE INDEX verifications_of_agent ON verifications (agent, number);

-- Each attempt of a policy: `state`: queued, running, waiting, passed, failed, timed_out, error, cancelled. `digest`:
-- SHA-256 of all that decides how it ends beside the tree; `always`: 1 = it decides whatever its tier. `head`, `tail`: the
-- first and the last 20 kB of `output_bytes`. `flaky`: 1 = it ended otherwise the second time. `sandboxed`: 1, 0, NULL =
-- nothing of ours ran; `reused`: the verification whose run it is.
CREATE TABLE verification_results (
  verification BIGINT NOT NULL,
  policy TEXT COLLATE "C" NOT NULL,
  attempt BIGINT NOT NULL,
  tier BIGINT NOT NULL,
  executor TEXT COLLATE "C" NOT NULL,
  digest TEXT COLLATE "C" NOT NULL,
  tree TEXT COLLATE "C" NOT NULL,
  state TEXT COLLATE "C" NOT NULL,
  always BIGINT NOT NULL,
  reason TEXT COLLATE "C" NOT NULL,
  exit_code BIGINT,
  seconds DOUBLE PRECISION NOT NULL,
  head TEXT COLLATE "C" NOT NULL,
  tail TEXT COLLATE "C" NOT NULL,
  output_bytes BIGINT NOT NULL,
  flaky BIGINT NOT NULL,
  sandboxed BIGINT,
  reused BIGINT,
  url TEXT COLLATE "C" NOT NULL,
  began DOUBLE PRECISION,
  ended DOUBLE PRECISION,
  PRIMARY KEY (verification, policy, attempt)
);
CREATE INDEX verification_results_same ON verification_results (tree, digest) WHERE reused IS NULL AND state IN ('passed', 'failed');
CREATE INDEX verification_results_waiting ON verification_results (tree, digest) WHERE state = 'waiting';
CREATE INDEX verification_results_printed ON verification_results (ended) WHERE head <> '' OR tail <> '';

-- Policies that people made by `POST /policies`; those of files stand in their folder. `policy`: JSON.
CREATE TABLE verification_policies (
  name TEXT COLLATE "C" PRIMARY KEY,
  policy TEXT COLLATE "C" NOT NULL,
  maker TEXT COLLATE "C" NOT NULL,
  at DOUBLE PRECISION NOT NULL
);

-- What waits for a person, and what a person said. `state`: waiting, approved, rejected, expired, withdrawn. `policies`,
-- `files`: JSON lists.
CREATE TABLE approval_queue (
  number BIGINT PRIMARY KEY,
  verification BIGINT NOT NULL,
  policies TEXT COLLATE "C" NOT NULL,
  files TEXT COLLATE "C" NOT NULL,
  state TEXT COLLATE "C" NOT NULL,
  asker TEXT COLLATE "C" NOT NULL,
  agent TEXT COLLATE "C" NOT NULL,
  at DOUBLE PRECISION NOT NULL,
  expires DOUBLE PRECISION NOT NULL,
  decided_by TEXT COLLATE "C",
  decided_at DOUBLE PRECISION,
  reason TEXT COLLATE "C" NOT NULL
);
CREATE INDEX approvals_waiting ON approval_queue (number) WHERE state = 'waiting';
CREATE INDEX approvals_of ON approval_queue (verification);

-- Branches that are to land on the main branch. `state`: asked (the work is not looked at yet), waiting, testing, landed,
-- put_out, cancelled. `at_commit`, `tree`: the work as it was then; `policies`: of those that it routes to, the names (JSON). `note`: what it waits
-- for; `held_on`: the commit of the main branch on which it is not tried again. `passed_over`: batches that others took
-- before it; `verification`: of the batch that it is or was tested in, `approval`: the one that a person looks at.
-- `landed_as`: its merge commit on the main branch; `output`: the lines of what failed.
CREATE TABLE landing_entries (
  number BIGINT PRIMARY KEY,
  agent TEXT COLLATE "C" NOT NULL,
  branch TEXT COLLATE "C" NOT NULL,
  at_commit TEXT COLLATE "C" NOT NULL,
  tree TEXT COLLATE "C" NOT NULL,
  asker TEXT COLLATE "C" NOT NULL,
  state TEXT COLLATE "C" NOT NULL,
  policies TEXT COLLATE "C" NOT NULL,
  note TEXT COLLATE "C" NOT NULL,
  held_on TEXT COLLATE "C",
  passed_over BIGINT NOT NULL,
  verification BIGINT,
  approval BIGINT,
  task TEXT COLLATE "C",
  landed_as TEXT COLLATE "C",
  reason TEXT COLLATE "C" NOT NULL,
  output TEXT COLLATE "C" NOT NULL,
  at DOUBLE PRECISION NOT NULL,
  began DOUBLE PRECISION,
  ended DOUBLE PRECISION
);
CREATE UNIQUE INDEX landing_open ON landing_entries (agent) WHERE state IN ('asked', 'waiting', 'testing');
CREATE INDEX landing_of_agent ON landing_entries (agent, number);
