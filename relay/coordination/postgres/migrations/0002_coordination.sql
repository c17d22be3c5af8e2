-- 004, "Agent Sessions", "File Locking", "Work Queue". Times are Unix seconds; lists are JSON.
--
-- A session is one agent (or person) from its first call on. `kind` process: it ends with its process, which says
-- that it lives every few seconds; given: it was named by its owner and lives by its calls. It is alive while
-- ended_at is null and lease_until lies ahead; nothing has to notice for it to be dead.
CREATE TABLE agent_sessions (
  agent_id TEXT COLLATE "C" NOT NULL,
  id TEXT COLLATE "C" NOT NULL,
  agent_type TEXT COLLATE "C" NOT NULL,
  kind TEXT COLLATE "C" NOT NULL CHECK (kind IN ('process', 'given')),
  started_at DOUBLE PRECISION NOT NULL,
  heartbeat_at DOUBLE PRECISION NOT NULL,
  lease_until DOUBLE PRECISION NOT NULL,
  ended_at DOUBLE PRECISION,
  end_reason TEXT COLLATE "C",
  PRIMARY KEY (agent_id, id)
);
CREATE INDEX sessions_open ON agent_sessions (lease_until) WHERE ended_at IS NULL;
CREATE INDEX sessions_by_start ON agent_sessions (started_at);

-- `path` as it is shown; `key` as it is compared (case folded where the file system does). `base`, of a glob
-- alone, is the folder before its first wildcard ('' = the root). A lock holds while expires_at and its session's lease lie
-- ahead; a row that no longer holds stays for a day, or until its holder takes it anew, so that this one is found
-- stale. `forced_by`, `forced_why`: a person took it away. `shape`: what relay_overlaps compares, made with the key.
CREATE TABLE file_locks (
  key TEXT COLLATE "C" NOT NULL,
  kind TEXT COLLATE "C" NOT NULL CHECK (kind IN ('path', 'glob', 'key')),
  agent_id TEXT COLLATE "C" NOT NULL,
  session_id TEXT COLLATE "C" NOT NULL,
  path TEXT COLLATE "C" NOT NULL,
  base TEXT COLLATE "C" CHECK ((base IS NULL) = (kind <> 'glob')),
  mode TEXT COLLATE "C" NOT NULL CHECK (mode IN ('exclusive', 'shared')),
  fencing_token BIGINT NOT NULL,
  reason TEXT COLLATE "C",
  acquired_at DOUBLE PRECISION NOT NULL,
  renewed_at DOUBLE PRECISION NOT NULL,
  expires_at DOUBLE PRECISION NOT NULL,
  task_id TEXT COLLATE "C",
  forced_by TEXT COLLATE "C",
  forced_why TEXT COLLATE "C",
  shape JSONB NOT NULL,
  PRIMARY KEY (key, kind, agent_id, session_id)
);
CREATE INDEX locks_of_session ON file_locks (agent_id, session_id);
CREATE INDEX locks_by_expiry ON file_locks (expires_at);
CREATE INDEX locks_with_globs ON file_locks (base) WHERE base IS NOT NULL;
CREATE INDEX locks_of_task ON file_locks (task_id) WHERE task_id IS NOT NULL;

-- Whether two names can be one and the same. chr(1) stands for any characters, chr(2) for one; what was read is
-- nothing, a dot, two dots, or anything else, since `.` and `..` are no names. See relay.coordination.patterns.
CREATE FUNCTION relay_names_meet(a text, b text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
  p text[]; q text[]; n integer; m integer; seen boolean[]; at integer; u text; v text; now integer;
BEGIN
  IF a !~ '[\x01\x02]' AND b !~ '[\x01\x02]' THEN RETURN a = b; END IF;
  p := string_to_array(a, NULL); q := string_to_array(b, NULL);
  n := cardinality(p); m := cardinality(q);
  seen := array_fill(false, ARRAY[(n + 1) * (m + 1) * 4]);
  seen[1] := true;
  FOR i IN 0..n LOOP FOR j IN 0..m LOOP FOR r IN 0..3 LOOP
    at := (i * (m + 1) + j) * 4 + r + 1;
    CONTINUE WHEN NOT seen[at];
    u := p[i + 1]; v := q[j + 1];
    IF u IS NULL AND v IS NULL AND r = 3 THEN RETURN true; END IF;
    IF u = E'\x01' THEN seen[at + (m + 1) * 4] := true; END IF;
    IF v = E'\x01' THEN seen[at + 4] := true; END IF;
    CONTINUE WHEN u IS NULL OR v IS NULL OR (u NOT IN (E'\x01', E'\x02') AND v NOT IN (E'\x01', E'\x02') AND u <> v);
    now := CASE WHEN (CASE WHEN u NOT IN (E'\x01', E'\x02') THEN u ELSE v END) = '.' AND r < 3 THEN r + 1 ELSE 3 END;
    seen[((i + (u <> E'\x01')::integer) * (m + 1) + j + (v <> E'\x01')::integer) * 4 + now + 1] := true;
  END LOOP; END LOOP; END LOOP;
  RETURN false;
END $$;

-- Whether two alternatives ({names, file}) can meet: both automata walked at once, a name a step.
CREATE FUNCTION relay_shapes_meet(a jsonb, b jsonb) RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
  x text[] := ARRAY(SELECT jsonb_array_elements_text(a->'names'));
  y text[] := ARRAY(SELECT jsonb_array_elements_text(b->'names'));
  n integer := cardinality(x);
  m integer := cardinality(y);
  folders CONSTANT text := E'\x01\x01';
  seen boolean[] := array_fill(false, ARRAY[(cardinality(x) + 1) * (cardinality(y) + 1)]);
  at integer;
BEGIN
  seen[1] := true;
  FOR i IN 0..n LOOP FOR j IN 0..m LOOP
    at := i * (m + 1) + j + 1;
    CONTINUE WHEN NOT seen[at];
    IF i = n OR j = m THEN
      -- One is at its end: unless it is a file, what is left of the other can be some path below it.
      IF NOT (CASE WHEN i = n THEN a ELSE b END->>'file')::boolean
         OR folders = ALL (CASE WHEN i = n THEN y[j + 1:m] ELSE x[i + 1:n] END) THEN
        RETURN true;
      END IF;
    ELSIF x[i + 1] = folders OR y[j + 1] = folders THEN
      seen[at + 1] := true;
      seen[at + m + 1] := true;
    ELSIF relay_names_meet(x[i + 1], y[j + 1]) THEN
      seen[at + m + 2] := true;
    END IF;
  END LOOP; END LOOP;
  RETURN false;
END $$;

-- Whether two locks are about something in common: relay.coordination.patterns.overlaps, of shapes that were made there.
CREATE FUNCTION relay_overlaps(
  a_kind text, a_key text, a_shape jsonb, b_kind text, b_key text, b_shape jsonb
) RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  IF a_kind = 'key' OR b_kind = 'key' THEN RETURN a_kind = b_kind AND a_key = b_key; END IF;
  IF a_kind = 'path' AND relay_within(b_shape, a_shape) OR b_kind = 'path' AND relay_within(a_shape, b_shape) THEN
    RETURN true;
  END IF;
  RETURN EXISTS (
    SELECT FROM jsonb_array_elements(a_shape) AS a, jsonb_array_elements(b_shape) AS b WHERE relay_shapes_meet(a, b));
END $$;

-- Whether every alternative of a shape begins with the path.
CREATE FUNCTION relay_within(shape jsonb, path jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT bool_and(
    (SELECT jsonb_agg(name ORDER BY place) FROM jsonb_array_elements(one->'names') WITH ORDINALITY AS n (name, place)
     WHERE place <= jsonb_array_length(path->0->'names')) = path->0->'names')
  FROM jsonb_array_elements(shape) AS one
$$;

-- Who waits for what, in order of id; a wait whose `until` or `seen_at` lies behind is none any more. `wanted`: a list
-- of {kind, key, path, base}.
CREATE TABLE lock_waits (
  id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  agent_id TEXT COLLATE "C" NOT NULL,
  session_id TEXT COLLATE "C" NOT NULL,
  wanted TEXT COLLATE "C" NOT NULL,
  mode TEXT COLLATE "C" NOT NULL,
  since DOUBLE PRECISION NOT NULL,
  until DOUBLE PRECISION NOT NULL,
  seen_at DOUBLE PRECISION NOT NULL
);
CREATE INDEX waits_of_session ON lock_waits (agent_id, session_id);

-- What an agent says it changed, beside what it did change.
CREATE TABLE changesets (
  id TEXT COLLATE "C" PRIMARY KEY,
  agent_id TEXT COLLATE "C" NOT NULL,
  session_id TEXT COLLATE "C" NOT NULL,
  summary TEXT COLLATE "C" NOT NULL,
  declared TEXT COLLATE "C" NOT NULL,
  changed TEXT COLLATE "C" NOT NULL,
  undeclared TEXT COLLATE "C" NOT NULL,
  base TEXT COLLATE "C",
  head TEXT COLLATE "C",
  fencing_token BIGINT,
  created_at DOUBLE PRECISION NOT NULL
);
CREATE INDEX changesets_of_session ON changesets (agent_id, session_id, created_at);
CREATE INDEX changesets_by_time ON changesets (created_at);

-- The answer that a request with this idempotency key got.
CREATE TABLE answered_requests (
  agent_id TEXT COLLATE "C" NOT NULL,
  operation TEXT COLLATE "C" NOT NULL,
  key TEXT COLLATE "C" NOT NULL,
  request_sha TEXT COLLATE "C" NOT NULL,
  answer TEXT COLLATE "C" NOT NULL,
  at DOUBLE PRECISION NOT NULL,
  PRIMARY KEY (agent_id, operation, key)
);
CREATE INDEX answered_by_time ON answered_requests (at);

-- `on_failed`: what a task does when one that it depends on fails: block, cascade (it fails too), ignore.
-- `note`: why it stands where it stands, for people. `files`: what a claim locks with it.
-- `past_claims`: [agent, session, fence] of each claim that was lost, so that who lost one is told so.
ALTER TABLE work_queue ADD COLUMN claimed_session TEXT COLLATE "C";
ALTER TABLE work_queue ADD COLUMN claimed_type TEXT COLLATE "C";
ALTER TABLE work_queue ADD COLUMN not_before DOUBLE PRECISION NOT NULL DEFAULT 0;
ALTER TABLE work_queue ADD COLUMN max_attempts BIGINT NOT NULL DEFAULT 3;
ALTER TABLE work_queue ADD COLUMN lease_s DOUBLE PRECISION;
ALTER TABLE work_queue ADD COLUMN on_failed TEXT COLLATE "C" NOT NULL DEFAULT 'block';
ALTER TABLE work_queue ADD COLUMN files TEXT COLLATE "C" NOT NULL DEFAULT '[]';
ALTER TABLE work_queue ADD COLUMN note TEXT COLLATE "C";
ALTER TABLE work_queue ADD COLUMN past_claims TEXT COLLATE "C" NOT NULL DEFAULT '[]';
CREATE INDEX work_by_type ON work_queue (task_type, rank, number) WHERE status = 'pending' AND archived_at IS NULL;
CREATE INDEX work_leased ON work_queue (lease_until) WHERE status = 'claimed' AND lease_until IS NOT NULL;
CREATE INDEX work_blocked ON work_queue (status, archived_at) WHERE status = 'blocked' AND archived_at IS NULL;
CREATE INDEX work_of_session ON work_queue (claimed_by, claimed_session) WHERE status = 'claimed';

-- depends_on of each task, one row a task that it needs: who waits for a task is found by it.
CREATE TABLE work_needs (
  task_id TEXT COLLATE "C" NOT NULL,
  needs TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (task_id, needs)
);
CREATE INDEX work_needed_by ON work_needs (needs);

-- Every token comes from one counter of the room from here on, and none goes back.
INSERT INTO counters (name, value) SELECT 'fence', COALESCE(MAX(fence), 0) FROM work_queue WHERE true
ON CONFLICT (name) DO UPDATE SET value = GREATEST(counters.value, excluded.value);
