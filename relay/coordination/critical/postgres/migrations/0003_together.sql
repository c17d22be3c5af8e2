-- The functions of 0001 in fewer statements, since each costs the server more to begin than to run; and so that several
-- of them may be one transaction: relay sends those that come at the same time together.
--
-- A function that is not `alone` in its transaction may come behind one that has appended an event, and so holds the order
-- of the events, which every other transaction comes to want: it waits for nothing then. What it cannot have at once, it
-- leaves to the general way. What is locked, and in which order, where it is alone:
--   1. the room's lock, shared;
--   2. the row of the own session, where it is to be changed;
--   3. of a lock: the folders above the path shared, from the root down, and the path itself alone; of a task: its row;
--   4. the order of the events; 5. the counter of fencing tokens.

-- Begin: with the rights of this agent (of relay, where it is a person), and with the room's lock, shared.
CREATE FUNCTION relay_enter(agent text, session text, person boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE as_role text := nullif(current_setting('relay.agent_role', true), '');
BEGIN
  IF as_role IS NOT NULL THEN
    -- Whoever was served before in this transaction.
    PERFORM set_config('relay.agent_id', CASE WHEN person THEN '' ELSE agent END, true),
      set_config('relay.session_id', CASE WHEN person THEN '' ELSE session END, true),
      set_config('role', CASE WHEN person THEN 'relay_service' ELSE as_role END, true);
  END IF;
  PERFORM pg_advisory_xact_lock_shared(1919249529, hashtext(current_schema()));
END $$;

DROP FUNCTION relay_session_stands(text, text, double precision, double precision);

-- How the own session stands: `general` (a first call, one that was dead, or its row is not to be had), `due` when a
-- heartbeat is to be written, `claims` when it extends claims with it, `promise` when the session was named and is to
-- live longer for the `promised_s` that it is promised now, else `fresh`. Its row is locked where it is to be changed.
-- relay.coordination.sessions.Heartbeat; 5 = GAP_S there. A heartbeat of a session whose claims have files is general: it
-- extends every lock on one of them, whether it was taken with the claim or before.
CREATE FUNCTION relay_session_stands(agent text, session text, lease_s double precision, claim_s double precision,
  promised_s double precision, alone boolean, OUT stands text, OUT own agent_sessions) LANGUAGE plpgsql AS $$
DECLARE
  now double precision := relay_now();
  claims_due double precision;
BEGIN
  SELECT * INTO own FROM agent_sessions s WHERE s.agent_id = agent AND s.id = session;
  stands := 'general';
  IF own.id IS NULL OR own.ended_at IS NOT NULL OR own.lease_until <= now THEN RETURN; END IF;
  SELECT min(w.lease_until - greatest(0.75 * coalesce(w.lease_s, claim_s), coalesce(w.lease_s, claim_s) - 5))
  INTO claims_due FROM work_queue w
  WHERE w.claimed_by = agent AND w.claimed_session = session AND w.status = 'claimed' AND w.lease_until > now;
  IF abs(now - own.heartbeat_at) >= least(5, lease_s / 4) OR claims_due <= now THEN
    IF claims_due IS NOT NULL AND (NOT alone OR EXISTS (SELECT FROM work_queue w WHERE w.claimed_by = agent
      AND w.claimed_session = session AND w.status = 'claimed' AND w.files <> '[]')) THEN
      RETURN;
    END IF;
    stands := CASE WHEN claims_due IS NULL THEN 'due' ELSE 'claims' END;
  ELSIF own.kind = 'given' AND own.lease_until < now + promised_s + 1 THEN
    -- The clock is read again when it is promised: a second is more than lies between.
    stands := 'promise';
  ELSE
    stands := 'fresh';
    RETURN;
  END IF;
  PERFORM FROM agent_sessions s WHERE s.agent_id = agent AND s.id = session FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN stands := 'general'; END IF;
END $$;

-- Write what is due of the session's row: a heartbeat, and that it lives as long as what it was promised (5 = GAP_S: a
-- little longer, so that of several locks in a row not each one writes it).
CREATE OR REPLACE FUNCTION relay_session_lives(mine agent_sessions, stands text, now double precision,
  lease_s double precision, claim_s double precision, promised double precision DEFAULT NULL) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  beats CONSTANT boolean := stands IN ('due', 'claims');
  until double precision := mine.lease_until;
BEGIN
  IF stands = 'fresh' THEN RETURN; END IF;
  IF stands = 'claims' THEN
    UPDATE work_queue w SET lease_until = greatest(w.lease_until, now + coalesce(w.lease_s, claim_s))
    WHERE w.claimed_by = mine.agent_id AND w.claimed_session = mine.id AND w.status = 'claimed' AND w.lease_until > now;
  END IF;
  IF beats THEN until := greatest(until, now + lease_s); END IF;
  IF mine.kind = 'given' AND until < promised THEN until := promised + 5; END IF;
  IF beats OR until > mine.lease_until THEN
    UPDATE agent_sessions s SET lease_until = greatest(s.lease_until, until),
      heartbeat_at = CASE WHEN beats THEN now ELSE s.heartbeat_at END
    WHERE s.agent_id = mine.agent_id AND s.id = mine.id;
  END IF;
END $$;

-- The event of a change of a lock, as relay.coordination.lock_table.say records it, with Lock.as_json.
CREATE OR REPLACE FUNCTION relay_say_lock(what text, lock file_locks) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM relay_append_own(what, lock.session_id, lock.agent_id,
    '{"by":' || to_json(lock.agent_id)
    || ',"lock":{"acquired_at":"' || relay_iso(lock.acquired_at)
    || '","expires_at":"' || relay_iso(lock.expires_at)
    || '","fencing_token":' || lock.fencing_token
    || ',"file_path":' || to_json(lock.path)
    || ',"kind":"' || lock.kind
    || '","locked_by":' || to_json(lock.agent_id)
    || ',"mode":"' || lock.mode
    || '","reason":' || coalesce(to_json(lock.reason)::text, 'null')
    || ',"session":' || to_json(lock.session_id)
    || '},"reason":null}');
END $$;

-- Take the names of a lock: the folders above shared, from the root down, the path itself alone. False: one of them is
-- not to be had without waiting.
CREATE FUNCTION relay_lock_names(kind text, above text[], alone boolean) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  IF alone THEN
    PERFORM CASE place WHEN cardinality(above) THEN pg_advisory_xact_lock(relay_key_of(kind, folder))
      ELSE pg_advisory_xact_lock_shared(relay_key_of(kind, folder)) END
    FROM unnest(above) WITH ORDINALITY AS a (folder, place);
    RETURN true;
  END IF;
  RETURN (SELECT bool_and(
      CASE place WHEN cardinality(above) THEN pg_try_advisory_xact_lock(relay_key_of(kind, folder))
      ELSE pg_try_advisory_xact_lock_shared(relay_key_of(kind, folder)) END)
    FROM unnest(above) WITH ORDINALITY AS a (folder, place));
END $$;

DROP FUNCTION relay_acquire_lock(text, text, boolean, double precision, double precision, text, text, text, jsonb,
  text[], text[], text, text, text, double precision, text);

-- Take one path or logical key, or refresh it. `outcome`: acquired, refreshed, blocked (`lock` is whose lock is in the
-- way), general. The targets are as in relay.coordination.lock_table.reach: `above` has the path and the folders above it,
-- from the root down; `bases` those and the root; below lies what is between `low` and `high`, and `whole` is the path.
CREATE FUNCTION relay_acquire_lock(
  agent text, session text, person boolean, lease_s double precision, claim_s double precision,
  wanted_kind text, wanted_key text, wanted_path text, wanted_shape jsonb, above text[], bases text[],
  low text, whole text, high text, wanted_mode text, ttl_s double precision, why text, alone boolean,
  OUT outcome text, OUT lock file_locks
) LANGUAGE plpgsql AS $$
DECLARE
  mine record;
  look record;
  met record;
  now double precision;
BEGIN
  PERFORM relay_enter(agent, session, person);
  mine := relay_session_stands(agent, session, lease_s, claim_s, ttl_s, alone);
  outcome := 'general';
  IF mine.stands = 'general' OR wanted_kind = 'glob' OR NOT relay_lock_names(wanted_kind, above, alone) THEN
    RETURN;
  END IF;
  now := relay_now();
  -- What there is at the path and above it, below it, and of patterns; who holds it is asked only where there is some.
  -- General is: a line of those who wait (5 = STALE_S in relay.coordination.lock_table: a wait that was not seen for so
  -- long is none), leases of the session that are over and are covered by this one, which go with it, and a claim's
  -- file, whose mode stays.
  SELECT at.expires_at, at.others OR below.others OR patterns.others AS met,
    at.of_claim AND wanted_mode = 'shared' OR below.over OR patterns.over
      OR EXISTS (SELECT FROM lock_waits w WHERE w.until > now AND w.seen_at > now - 5) AS general
  INTO look FROM (
    SELECT max(f.expires_at) FILTER (WHERE f.own AND f.key = wanted_key) AS expires_at,
      coalesce(bool_or(f.own AND f.key = wanted_key AND f.task_id IS NOT NULL), false) AS of_claim,
      coalesce(bool_or(NOT f.own AND f.expires_at > now), false) AS others
    FROM (SELECT l.*, l.agent_id = agent AND l.session_id = session AS own FROM file_locks l
      WHERE l.kind = wanted_kind AND l.key = ANY (above)) AS f
  ) AS at, (
    SELECT coalesce(bool_or(f.expires_at > now AND f.kind = 'path'), false) AS others,
      coalesce(bool_or(f.expires_at <= now AND f.agent_id = agent AND f.session_id = session), false) AS over
    FROM file_locks f WHERE f.key > low AND f.key < high
  ) AS below, (
    SELECT coalesce(bool_or(f.expires_at > now), false) AS others,
      coalesce(bool_or(f.expires_at <= now AND f.base >= whole AND f.agent_id = agent AND f.session_id = session), false)
        AS over
    FROM file_locks f WHERE f.base = ANY (bases) OR f.base > low AND f.base < high
  ) AS patterns;
  IF look.general THEN RETURN; END IF;
  IF look.met THEN
    SELECT l.*, coalesce(s.ended_at IS NULL AND s.lease_until > now, false) AS lives INTO met FROM (
      SELECT f.* FROM file_locks f WHERE f.expires_at > now AND f.kind = wanted_kind AND f.key = ANY (above)
      UNION ALL
      SELECT f.* FROM file_locks f WHERE f.expires_at > now AND f.kind = 'path' AND f.key > low AND f.key < high
      UNION ALL
      SELECT f.* FROM file_locks f WHERE f.expires_at > now AND f.base = ANY (bases)
        AND relay_overlaps(f.kind, f.key, f.shape, wanted_kind, wanted_key, wanted_shape)
      UNION ALL
      SELECT f.* FROM file_locks f WHERE f.expires_at > now AND f.base > low AND f.base < high
    ) l LEFT JOIN agent_sessions s ON s.agent_id = l.agent_id AND s.id = l.session_id
    WHERE (l.mode = 'exclusive' OR wanted_mode = 'exclusive') AND NOT (l.agent_id = agent AND l.session_id = session)
    ORDER BY lives, l.expires_at DESC, l.fencing_token LIMIT 1;
    IF FOUND THEN
      IF met.lives THEN
        outcome := 'blocked';
        lock := met;
        PERFORM relay_session_lives(mine.own, mine.stands, now, lease_s, claim_s);
      END IF;
      RETURN;
    END IF;
  END IF;
  IF look.expires_at IS NOT NULL AND NOT alone THEN
    PERFORM FROM file_locks l WHERE l.key = wanted_key AND l.kind = wanted_kind AND l.agent_id = agent
      AND l.session_id = session FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN RETURN; END IF;
  END IF;
  PERFORM relay_session_lives(mine.own, mine.stands, now, lease_s, claim_s, greatest(now + ttl_s, look.expires_at));
  IF look.expires_at > now THEN
    outcome := 'refreshed';
    UPDATE file_locks l SET path = wanted_path, shape = wanted_shape, mode = wanted_mode, renewed_at = now,
      reason = coalesce(why, l.reason), expires_at = greatest(l.expires_at, now + ttl_s),
      forced_by = NULL, forced_why = NULL
    WHERE l.key = wanted_key AND l.kind = wanted_kind AND l.agent_id = agent AND l.session_id = session
    RETURNING l.* INTO lock;
  ELSE
    outcome := 'acquired';
    IF look.expires_at IS NOT NULL THEN
      DELETE FROM file_locks l
      WHERE l.key = wanted_key AND l.kind = wanted_kind AND l.agent_id = agent AND l.session_id = session;
    END IF;
    PERFORM relay_lock_order();
    INSERT INTO file_locks AS l (key, kind, agent_id, session_id, path, mode, fencing_token, reason, acquired_at,
      renewed_at, expires_at, shape)
    VALUES (wanted_key, wanted_kind, agent, session, wanted_path, wanted_mode, relay_next_number('fence'), why, now,
      now, now + ttl_s, wanted_shape)
    ON CONFLICT DO NOTHING RETURNING l.* INTO lock;
  END IF;
  IF lock.key IS NULL THEN
    RAISE EXCEPTION 'a row of this session changed under its lock' USING ERRCODE = 'serialization_failure';
  END IF;
  PERFORM relay_say_lock('lock.' || outcome, lock);
END $$;

DROP FUNCTION relay_release_lock(text, text, boolean, double precision, double precision, text, text, bigint);

-- Free the own lock on exactly this, of that token where one is given. `outcome`: released, or general: there is none
-- to free, and why is a longer story.
CREATE FUNCTION relay_release_lock(
  agent text, session text, person boolean, lease_s double precision, claim_s double precision,
  wanted_kind text, wanted_key text, token bigint, alone boolean,
  OUT outcome text, OUT lock file_locks
) LANGUAGE plpgsql AS $$
DECLARE
  mine record;
  now double precision;
BEGIN
  PERFORM relay_enter(agent, session, person);
  mine := relay_session_stands(agent, session, lease_s, claim_s, 0, alone);
  outcome := 'general';
  IF mine.stands = 'general' THEN RETURN; END IF;
  IF NOT alone THEN
    PERFORM FROM file_locks l WHERE l.key = wanted_key AND l.kind = wanted_kind AND l.agent_id = agent
      AND l.session_id = session FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN RETURN; END IF;
  END IF;
  now := relay_now();
  DELETE FROM file_locks l
  WHERE l.key = wanted_key AND l.kind = wanted_kind AND l.agent_id = agent AND l.session_id = session
    AND l.expires_at > now AND l.fencing_token = coalesce(token, l.fencing_token)
  RETURNING l.* INTO lock;
  IF lock.key IS NULL THEN RETURN; END IF;
  outcome := 'released';
  PERFORM relay_session_lives(mine.own, mine.stands, now, lease_s, claim_s);
  PERFORM relay_say_lock('lock.released', lock);
END $$;

-- Whether a JSON text can hold a NUL, which no text of the database has: it is kept as it is written, and cannot be read.
CREATE FUNCTION relay_has_nul(json_text text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$ SELECT coalesce(strpos(json_text, '\u0000') > 0, false) $$;

-- The event of what an agent did to a task (relay.coordination.changes.log), and its place among the changes.
CREATE OR REPLACE FUNCTION relay_say_task(change text, task work_queue, agent text, session text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE told record;
BEGIN
  told := relay_append_own('task.changed', session, agent,
    '{"by":' || to_json(agent) || ',"change":"' || change || '","tasks":[{"after":' || relay_task_record(task)
    || ',"before":null}]}');
  INSERT INTO task_changes (pos, event_id, undoable) VALUES (told.made_pos, told.made_id, 0);
END $$;

DROP FUNCTION relay_claim_work(text, text, boolean, double precision, double precision, text, text[], double precision);

-- Claim the first task that is ready, of one of the `types` (NULL: any). `outcome`: claimed, none, or general: a lost
-- claim is to be taken back first, the task wants its files locked or holds what no text of the database can, or others
-- are just claiming the last ones.
CREATE FUNCTION relay_claim_work(
  agent text, session text, person boolean, lease_s double precision, claim_s double precision,
  agent_kind text, types text[], for_s double precision, alone boolean,
  OUT outcome text, OUT task work_queue
) LANGUAGE plpgsql AS $$
DECLARE
  mine record;
  now double precision;
BEGIN
  PERFORM relay_enter(agent, session, person);
  mine := relay_session_stands(agent, session, lease_s, claim_s, for_s, alone);
  outcome := 'general';
  IF mine.stands = 'general' THEN RETURN; END IF;
  now := relay_now();
  IF EXISTS (SELECT FROM work_queue w WHERE w.status = 'claimed' AND w.lease_until IS NOT NULL AND w.lease_until <= now)
    OR EXISTS (
      SELECT FROM work_queue w JOIN agent_sessions s ON s.agent_id = w.claimed_by AND s.id = w.claimed_session
      WHERE w.status = 'claimed' AND w.lease_until IS NOT NULL AND (s.ended_at IS NOT NULL OR s.lease_until <= now))
  THEN
    RETURN;
  END IF;
  IF types IS NULL THEN
    SELECT * INTO task FROM work_queue w
    WHERE w.status = 'pending' AND w.archived_at IS NULL AND w.not_before <= now
    ORDER BY w.rank, w.number LIMIT 1 FOR UPDATE SKIP LOCKED;
  ELSE
    -- The first few of each type, by the index of types: who else claims now has one of them at most.
    SELECT * INTO task FROM work_queue w
    WHERE w.status = 'pending' AND w.archived_at IS NULL AND w.not_before <= now AND w.id = ANY (ARRAY(
      SELECT one.id FROM unnest(types) AS t (type) CROSS JOIN LATERAL (
        SELECT n.id FROM work_queue n WHERE n.status = 'pending' AND n.archived_at IS NULL AND n.task_type = t.type
          AND n.not_before <= now ORDER BY n.rank, n.number LIMIT 16) AS one))
    ORDER BY w.rank, w.number LIMIT 1 FOR UPDATE SKIP LOCKED;
  END IF;
  IF task.id IS NULL THEN
    -- Nothing is ready, or all that is, others are just claiming.
    IF NOT EXISTS (SELECT FROM work_queue w WHERE w.status = 'pending' AND w.archived_at IS NULL
      AND w.not_before <= now AND (types IS NULL OR w.task_type = ANY (types))) THEN
      outcome := 'none';
      PERFORM relay_session_lives(mine.own, mine.stands, now, lease_s, claim_s);
    END IF;
    RETURN;
  END IF;
  IF task.files <> '[]' OR relay_has_nul(task.input_data) OR relay_has_nul(task.result) THEN RETURN; END IF;
  outcome := 'claimed';
  PERFORM relay_session_lives(mine.own, mine.stands, now, lease_s, claim_s, now + for_s);
  PERFORM relay_lock_order();
  UPDATE work_queue w SET status = 'claimed', claimed_by = agent, claimed_session = session, claimed_type = agent_kind,
    claimed_at = now, lease_until = now + for_s, lease_s = for_s, fence = relay_next_number('fence'),
    updated_at = now, note = NULL
  WHERE w.id = task.id RETURNING w.* INTO task;
  PERFORM relay_say_task('claimed', task, agent, session);
END $$;

DROP FUNCTION relay_complete_work(text, text, boolean, double precision, double precision, text, text, text, text, bigint);

-- End the own claim for good. `outcome`: done, or general: it is not held so, others need it, or it has files.
CREATE FUNCTION relay_complete_work(
  agent text, session text, person boolean, lease_s double precision, claim_s double precision,
  which text, ends_as text, its_result text, its_error text, token bigint, alone boolean,
  OUT outcome text, OUT task work_queue
) LANGUAGE plpgsql AS $$
DECLARE
  mine record;
  now double precision;
BEGIN
  PERFORM relay_enter(agent, session, person);
  mine := relay_session_stands(agent, session, lease_s, claim_s, 0, alone);
  outcome := 'general';
  IF mine.stands = 'general' OR relay_has_nul(its_result) OR EXISTS (SELECT FROM work_needs n WHERE n.needs = which) THEN
    RETURN;
  END IF;
  SELECT * INTO task FROM work_queue w WHERE w.id = which AND w.claimed_by = agent FOR UPDATE SKIP LOCKED;
  IF NOT FOUND OR relay_has_nul(task.input_data) THEN RETURN; END IF;
  now := relay_now();
  UPDATE work_queue w SET status = ends_as, result = its_result, error_message = its_error, completed_at = now,
    updated_at = now, lease_until = NULL, note = NULL
  WHERE w.id = which AND w.status = 'claimed' AND w.archived_at IS NULL AND w.files = '[]' AND w.claimed_by = agent
    AND (w.claimed_session = session OR (w.claimed_session IS NULL AND person))
    AND w.fence = coalesce(token, w.fence) AND (w.lease_until IS NULL OR w.lease_until > now)
  RETURNING w.* INTO task;
  IF task.id IS NULL THEN RETURN; END IF;
  outcome := 'done';
  PERFORM relay_session_lives(mine.own, mine.stands, now, lease_s, claim_s);
  PERFORM relay_say_task(ends_as, task, agent, session);
END $$;
