-- 004, "Agent Sessions", "File Locking", "Work Queue". Times are Unix seconds; lists are JSON.
--
-- A session is one agent (or person) from its first call on. `kind` process: it ends with its process, which says
-- that it lives every few seconds; given: it was named by its owner and lives by its calls. It is alive while
-- ended_at is null and lease_until lies ahead; nothing has to notice for it to be dead.
CREATE TABLE agent_sessions (
  agent_id TEXT NOT NULL,
  id TEXT NOT NULL,
  agent_type TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('process', 'given')),
  started_at REAL NOT NULL,
  heartbeat_at REAL NOT NULL,
  lease_until REAL NOT NULL,
  ended_at REAL,
  end_reason TEXT,
  PRIMARY KEY (agent_id, id)
) WITHOUT ROWID;
CREATE INDEX sessions_open ON agent_sessions (lease_until) WHERE ended_at IS NULL;
CREATE INDEX sessions_by_start ON agent_sessions (started_at);

-- `path` as it is shown; `key` as it is compared (case folded where the file system does). `base`, of a glob
-- alone, is the folder before its first wildcard ('' = the root). A lock holds while expires_at and its session's lease lie
-- ahead; a row that no longer holds stays for a day, or until its holder takes it anew, so that this one is found
-- stale. `forced_by`, `forced_why`: a person took it away.
CREATE TABLE file_locks (
  key TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('path', 'glob', 'key')),
  agent_id TEXT NOT NULL,
  session_id TEXT NOT NULL,
  path TEXT NOT NULL,
  base TEXT CHECK ((base IS NULL) = (kind <> 'glob')),
  mode TEXT NOT NULL CHECK (mode IN ('exclusive', 'shared')),
  fencing_token INTEGER NOT NULL,
  reason TEXT,
  acquired_at REAL NOT NULL,
  renewed_at REAL NOT NULL,
  expires_at REAL NOT NULL,
  task_id TEXT,
  forced_by TEXT,
  forced_why TEXT,
  PRIMARY KEY (key, kind, agent_id, session_id)
) WITHOUT ROWID;
CREATE INDEX locks_of_session ON file_locks (agent_id, session_id);
CREATE INDEX locks_by_expiry ON file_locks (expires_at);
-- Not WHERE kind = 'glob': beside such an index SQLite plans a statement with `kind = :kind` anew at every call.
CREATE INDEX locks_with_globs ON file_locks (base) WHERE base IS NOT NULL;
CREATE INDEX locks_of_task ON file_locks (task_id) WHERE task_id IS NOT NULL;

-- Who waits for what, in order of id; a wait whose `until` or `seen_at` lies behind is none any more. `wanted`: a list
-- of {kind, key, path, base}.
CREATE TABLE lock_waits (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  agent_id TEXT NOT NULL,
  session_id TEXT NOT NULL,
  wanted TEXT NOT NULL,
  mode TEXT NOT NULL,
  since REAL NOT NULL,
  until REAL NOT NULL,
  seen_at REAL NOT NULL
);
CREATE INDEX waits_of_session ON lock_waits (agent_id, session_id);

-- What an agent says it changed, beside what it did change.
CREATE TABLE changesets (
  id TEXT PRIMARY KEY,
  agent_id TEXT NOT NULL,
  session_id TEXT NOT NULL,
  summary TEXT NOT NULL,
  declared TEXT NOT NULL,
  changed TEXT NOT NULL,
  undeclared TEXT NOT NULL,
  base TEXT,
  head TEXT,
  fencing_token INTEGER,
  created_at REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX changesets_of_session ON changesets (agent_id, session_id, created_at);
CREATE INDEX changesets_by_time ON changesets (created_at);

-- The answer that a request with this idempotency key got.
CREATE TABLE answered_requests (
  agent_id TEXT NOT NULL,
  operation TEXT NOT NULL,
  key TEXT NOT NULL,
  request_sha TEXT NOT NULL,
  answer TEXT NOT NULL,
  at REAL NOT NULL,
  PRIMARY KEY (agent_id, operation, key)
) WITHOUT ROWID;
CREATE INDEX answered_by_time ON answered_requests (at);

-- `on_failed`: what a task does when one that it depends on fails: block, cascade (it fails too), ignore.
-- `note`: why it stands where it stands, for people. `files`: what a claim locks with it.
-- `past_claims`: [agent, session, fence] of each claim that was lost, so that who lost one is told so.
ALTER TABLE work_queue ADD COLUMN claimed_session TEXT;
ALTER TABLE work_queue ADD COLUMN claimed_type TEXT;
ALTER TABLE work_queue ADD COLUMN not_before REAL NOT NULL DEFAULT 0;
ALTER TABLE work_queue ADD COLUMN max_attempts INTEGER NOT NULL DEFAULT 3;
ALTER TABLE work_queue ADD COLUMN lease_s REAL;
ALTER TABLE work_queue ADD COLUMN on_failed TEXT NOT NULL DEFAULT 'block';
ALTER TABLE work_queue ADD COLUMN files TEXT NOT NULL DEFAULT '[]';
ALTER TABLE work_queue ADD COLUMN note TEXT;
ALTER TABLE work_queue ADD COLUMN past_claims TEXT NOT NULL DEFAULT '[]';
-- Every token comes from one counter of the room from here on, and none goes back.
INSERT INTO counters (name, value) SELECT 'fence', COALESCE(MAX(fence), 0) FROM work_queue WHERE true
ON CONFLICT (name) DO UPDATE SET value = MAX(value, excluded.value);
CREATE INDEX work_by_type ON work_queue (task_type, rank, number) WHERE status = 'pending' AND archived_at IS NULL;
CREATE INDEX work_leased ON work_queue (lease_until) WHERE status = 'claimed' AND lease_until IS NOT NULL;
CREATE INDEX work_blocked ON work_queue (status, archived_at) WHERE status = 'blocked' AND archived_at IS NULL;
CREATE INDEX work_of_session ON work_queue (claimed_by, claimed_session) WHERE status = 'claimed';

-- depends_on of each task, one row a task that it needs: who waits for a task is found by it.
CREATE TABLE work_needs (
  task_id TEXT NOT NULL,
  needs TEXT NOT NULL,
  PRIMARY KEY (task_id, needs)
) WITHOUT ROWID;
CREATE INDEX work_needed_by ON work_needs (needs);
