-- The critical operations (004, "Database Persistence"): to take and to free a lock, to claim and to end a task, each
-- one statement of the client and one transaction. Where a case is not a plain one (a pattern that is wished, a line of
-- those who wait, a lost claim, a task with files or with dependants) a function changes nothing and says `general`:
-- relay then does the same in a general write, which has the room alone.
--
-- General writers hold the room's lock alone, so a function shares the room only with functions. What two of them
-- could both decide is kept apart so, always in this order, which no two can take crosswise:
--   1. the room's lock, shared;
--   2. the row of the own session;
--   3. of a lock: the folders above the path shared, from the root down, and the path itself alone (locks of several
--      granularities: who is about to take `src` waits for who takes `src/app.py`); of a task: its row;
--   4. the counter of fencing tokens; 5. the order of the events, which are appended last.
-- Each statement of a function sees what was committed before it (READ COMMITTED), and the clock is read behind what
-- was waited for. A function takes nothing from the dead: where one's session is over, that is a general matter.

-- relay.log.events.now_iso of Unix seconds: microseconds rounded, then milliseconds cut.
CREATE FUNCTION relay_iso(at double precision) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS
$$ SELECT to_char(to_timestamp(at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') $$;

-- A float as Python's JSON has it: the shortest text that means it, never without a point.
CREATE FUNCTION relay_json_float(value double precision) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$ SELECT CASE WHEN value::text ~ '[.e]' THEN value::text ELSE value::text || '.0' END $$;

-- relay.log.events.dumps of a JSON text: without blanks, each object's keys in order. Scalars, and lists and objects that
-- are empty, are as they are.
CREATE FUNCTION relay_json_sorted(value json) RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  CASE json_typeof(value)
  WHEN 'object' THEN
    RETURN '{' || coalesce((SELECT string_agg(to_json(o.key)::text || ':' || relay_json_sorted(o.value), ','
      ORDER BY o.key COLLATE "C") FROM json_each(value) o), '') || '}';
  WHEN 'array' THEN
    RETURN '[' || coalesce((SELECT string_agg(relay_json_sorted(a.value), ',' ORDER BY a.place)
      FROM json_array_elements(value) WITH ORDINALITY AS a (value, place)), '') || ']';
  WHEN 'string' THEN RETURN to_json(value #>> '{}')::text;
  ELSE RETURN btrim(value::text);
  END CASE;
END $$;

-- How the own session stands, its row locked: `general` (a first call, or one that was dead), `due` when a heartbeat
-- is to be written, `claims` when it extends claims with it, else `fresh`. relay.coordination.sessions.Heartbeat;
-- 5 = GAP_S there. A heartbeat that extends the locks of claims is general.
CREATE FUNCTION relay_session_stands(agent text, session text, lease_s double precision, claim_s double precision,
  OUT stands text, OUT own agent_sessions) LANGUAGE plpgsql AS $$
DECLARE
  now double precision;
  claims_due double precision;
BEGIN
  SELECT * INTO own FROM agent_sessions s WHERE s.agent_id = agent AND s.id = session FOR UPDATE;
  now := relay_now();
  IF own.id IS NULL OR own.ended_at IS NOT NULL OR own.lease_until <= now THEN
    stands := 'general';
    RETURN;
  END IF;
  SELECT min(w.lease_until - greatest(0.75 * coalesce(w.lease_s, claim_s), coalesce(w.lease_s, claim_s) - 5))
  INTO claims_due FROM work_queue w
  WHERE w.claimed_by = agent AND w.claimed_session = session AND w.status = 'claimed' AND w.lease_until > now;
  stands := CASE
    WHEN abs(now - own.heartbeat_at) < least(5, lease_s / 4) AND coalesce(claims_due > now, true) THEN 'fresh'
    WHEN claims_due IS NULL THEN 'due'
    WHEN EXISTS (SELECT FROM file_locks l WHERE l.agent_id = agent AND l.session_id = session AND l.task_id IS NOT NULL)
      THEN 'general'
    ELSE 'claims' END;
END $$;

-- Write the heartbeat that is due, and let a session that was named live as long as what it was promised; both are
-- one row. 5 = GAP_S.
CREATE FUNCTION relay_session_lives(mine agent_sessions, stands text, now double precision, lease_s double precision,
  claim_s double precision, promised double precision DEFAULT NULL) RETURNS void LANGUAGE plpgsql AS $$
DECLARE until double precision := mine.lease_until;
BEGIN
  IF stands = 'claims' THEN
    UPDATE work_queue w SET lease_until = greatest(w.lease_until, now + coalesce(w.lease_s, claim_s))
    WHERE w.claimed_by = mine.agent_id AND w.claimed_session = mine.id AND w.status = 'claimed' AND w.lease_until > now;
  END IF;
  IF stands <> 'fresh' THEN until := greatest(until, now + lease_s); END IF;
  IF mine.kind = 'given' AND until < promised THEN until := promised + 5; END IF;
  IF stands <> 'fresh' OR until > mine.lease_until THEN
    UPDATE agent_sessions s SET lease_until = greatest(s.lease_until, until),
      heartbeat_at = CASE WHEN stands <> 'fresh' THEN now ELSE s.heartbeat_at END
    WHERE s.agent_id = mine.agent_id AND s.id = mine.id;
  END IF;
END $$;

-- The event of a change of a lock, as relay.coordination.lock_table.say records it, with Lock.as_json.
CREATE FUNCTION relay_say_lock(what text, lock file_locks) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM relay_append_event(what, lock.session_id, lock.agent_id, NULL,
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

-- Take one path or logical key, or refresh it. `outcome`: acquired, refreshed, blocked (`lock` is whose lock is in the
-- way), general. The targets are as in relay.coordination.lock_table.reach: `above` has the path and the folders above it,
-- from the root down; `bases` those and the root.
CREATE FUNCTION relay_acquire_lock(
  agent text, session text, person boolean, lease_s double precision, claim_s double precision,
  wanted_kind text, wanted_key text, wanted_path text, wanted_shape jsonb, above text[], bases text[],
  low text, high text, wanted_mode text, ttl_s double precision, why text,
  OUT outcome text, OUT lock file_locks
) LANGUAGE plpgsql AS $$
DECLARE
  mine record;
  held file_locks;
  met record;
  now double precision;
BEGIN
  IF NOT person THEN PERFORM relay_become(agent, session); END IF;
  PERFORM relay_lock_shared();
  mine := relay_session_stands(agent, session, lease_s, claim_s);
  IF mine.stands = 'general' OR wanted_kind = 'glob' THEN
    outcome := 'general';
    RETURN;
  END IF;
  FOR i IN 1 .. cardinality(above) - 1 LOOP
    PERFORM pg_advisory_xact_lock_shared(relay_key_of(wanted_kind, above[i]));
  END LOOP;
  PERFORM pg_advisory_xact_lock(relay_key_of(wanted_kind, wanted_key));
  now := relay_now();
  -- 5 = STALE_S in relay.coordination.lock_table: a wait that was not seen for so long is none.
  IF EXISTS (SELECT FROM lock_waits w WHERE w.until > now AND w.seen_at > now - 5) THEN
    outcome := 'general';
    RETURN;
  END IF;
  SELECT * INTO held FROM file_locks l
  WHERE l.key = wanted_key AND l.kind = wanted_kind AND l.agent_id = agent AND l.session_id = session;
  -- Whether there is anything at all is asked first, by four looks into indexes; who it is, only then.
  IF EXISTS (SELECT FROM file_locks f WHERE f.kind = wanted_kind AND f.key = ANY (above) AND f.expires_at > now
      AND (f.agent_id <> agent OR f.session_id <> session))
    OR EXISTS (SELECT FROM file_locks f WHERE f.key > low AND f.key < high AND f.kind = 'path' AND f.expires_at > now)
    OR EXISTS (SELECT FROM file_locks f WHERE f.base IS NOT NULL AND f.expires_at > now
      AND (f.base = ANY (bases) OR f.base > low AND f.base < high))
  THEN
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
      outcome := CASE WHEN met.lives THEN 'blocked' ELSE 'general' END;
      IF met.lives THEN
        lock := met;
        PERFORM relay_session_lives(mine.own, mine.stands, now, lease_s, claim_s);
      END IF;
      RETURN;
    END IF;
  END IF;
  PERFORM relay_session_lives(mine.own, mine.stands, now, lease_s, claim_s, greatest(now + ttl_s, held.expires_at));
  IF held.expires_at > now THEN
    outcome := 'refreshed';
    UPDATE file_locks l SET path = wanted_path, shape = wanted_shape, mode = wanted_mode, renewed_at = now,
      reason = coalesce(why, l.reason), expires_at = greatest(l.expires_at, now + ttl_s),
      forced_by = NULL, forced_why = NULL
    WHERE l.key = wanted_key AND l.kind = wanted_kind AND l.agent_id = agent AND l.session_id = session
    RETURNING l.* INTO lock;
  ELSE
    outcome := 'acquired';
    IF held.key IS NOT NULL THEN
      DELETE FROM file_locks l
      WHERE l.key = wanted_key AND l.kind = wanted_kind AND l.agent_id = agent AND l.session_id = session;
    END IF;
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

-- The key of the advisory lock on a name. 1919249531: the number behind ROOM_LOCK and ORDER_LOCK.
CREATE FUNCTION relay_key_of(kind text, key text) RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE AS
$$ SELECT hashtextextended(current_schema() || '/' || kind || '/' || key, 1919249531) $$;

-- Free the own lock on exactly this, of that token where one is given. `outcome`: released, or general: there is none
-- to free, and why is a longer story.
CREATE FUNCTION relay_release_lock(
  agent text, session text, person boolean, lease_s double precision, claim_s double precision,
  wanted_kind text, wanted_key text, token bigint,
  OUT outcome text, OUT lock file_locks
) LANGUAGE plpgsql AS $$
DECLARE
  mine record;
  now double precision;
BEGIN
  IF NOT person THEN PERFORM relay_become(agent, session); END IF;
  PERFORM relay_lock_shared();
  mine := relay_session_stands(agent, session, lease_s, claim_s);
  outcome := 'general';
  IF mine.stands = 'general' THEN RETURN; END IF;
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

-- relay.coordination.work.Task.record of a row: what is not set is left out.
CREATE FUNCTION relay_task_record(w work_queue) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN '{' || coalesce('"archived_at":' || relay_json_float(w.archived_at) || ',', '')
    || '"attempts":' || w.attempts
    || coalesce(',"claimed_at":' || relay_json_float(w.claimed_at), '')
    || coalesce(',"claimed_by":' || to_json(w.claimed_by), '')
    || coalesce(',"claimed_session":' || to_json(w.claimed_session), '')
    || coalesce(',"claimed_type":' || to_json(w.claimed_type), '')
    || coalesce(',"completed_at":' || relay_json_float(w.completed_at), '')
    || ',"created_at":' || relay_json_float(w.created_at)
    || ',"created_by":' || to_json(w.created_by)
    || ',"depends_on":' || CASE w.depends_on WHEN '[]' THEN '[]' ELSE relay_json_sorted(w.depends_on::json) END
    || coalesce(',"error_message":' || to_json(w.error_message), '')
    || ',"fence":' || w.fence
    || ',"files":' || CASE w.files WHEN '[]' THEN '[]' ELSE relay_json_sorted(w.files::json) END
    || ',"id":' || to_json(w.id)
    || coalesce(',"input_data":' || relay_json_sorted(w.input_data::json), '')
    || coalesce(',"lease_s":' || relay_json_float(w.lease_s), '')
    || coalesce(',"lease_until":' || relay_json_float(w.lease_until), '')
    || ',"max_attempts":' || w.max_attempts
    || ',"not_before":' || relay_json_float(w.not_before)
    || coalesce(',"note":' || to_json(w.note), '')
    || ',"number":' || w.number
    || ',"on_failed":' || to_json(w.on_failed)
    || ',"past_claims":' || CASE w.past_claims WHEN '[]' THEN '[]' ELSE relay_json_sorted(w.past_claims::json) END
    || ',"priority":' || w.priority
    || ',"rank":' || relay_json_float(w.rank)
    || coalesce(',"result":' || relay_json_sorted(w.result::json), '')
    || ',"status":' || to_json(w.status)
    || ',"task_description":' || to_json(w.task_description)
    || ',"task_type":' || to_json(w.task_type)
    || ',"updated_at":' || relay_json_float(w.updated_at) || '}';
END $$;

-- The event of what an agent did to a task (relay.coordination.changes.log), and its place among the changes.
CREATE FUNCTION relay_say_task(change text, task work_queue, agent text, session text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE told events;
BEGIN
  told := relay_append_event('task.changed', session, agent, NULL,
    '{"by":' || to_json(agent) || ',"change":"' || change || '","tasks":[{"after":' || relay_task_record(task)
    || ',"before":null}]}');
  INSERT INTO task_changes (pos, event_id, undoable) VALUES (told.pos, told.id, 0);
END $$;

-- Claim the first task that is ready, of one of the `types` (NULL: any). `outcome`: claimed, none, or general: a lost
-- claim is to be taken back first, the task wants its files locked, or others are just claiming the last ones.
CREATE FUNCTION relay_claim_work(
  agent text, session text, person boolean, lease_s double precision, claim_s double precision,
  agent_kind text, types text[], for_s double precision,
  OUT outcome text, OUT task work_queue
) LANGUAGE plpgsql AS $$
DECLARE
  mine record;
  now double precision;
BEGIN
  IF NOT person THEN PERFORM relay_become(agent, session); END IF;
  PERFORM relay_lock_shared();
  mine := relay_session_stands(agent, session, lease_s, claim_s);
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
  IF task.files <> '[]' THEN RETURN; END IF;
  outcome := 'claimed';
  PERFORM relay_session_lives(mine.own, mine.stands, now, lease_s, claim_s, now + for_s);
  UPDATE work_queue w SET status = 'claimed', claimed_by = agent, claimed_session = session, claimed_type = agent_kind,
    claimed_at = now, lease_until = now + for_s, lease_s = for_s, fence = relay_next_number('fence'),
    updated_at = now, note = NULL
  WHERE w.id = task.id RETURNING w.* INTO task;
  PERFORM relay_say_task('claimed', task, agent, session);
END $$;

-- End the own claim for good. `outcome`: done, or general: it is not held so, others need it, or it has files.
CREATE FUNCTION relay_complete_work(
  agent text, session text, person boolean, lease_s double precision, claim_s double precision,
  which text, ends_as text, its_result text, its_error text, token bigint,
  OUT outcome text, OUT task work_queue
) LANGUAGE plpgsql AS $$
DECLARE
  mine record;
  now double precision;
BEGIN
  IF NOT person THEN PERFORM relay_become(agent, session); END IF;
  PERFORM relay_lock_shared();
  mine := relay_session_stands(agent, session, lease_s, claim_s);
  outcome := 'general';
  IF mine.stands = 'general' OR EXISTS (SELECT FROM work_needs n WHERE n.needs = which) THEN RETURN; END IF;
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
