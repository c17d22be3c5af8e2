-- A lease that is over, and that another takes over, is marked as lost (lost_at), so that it never holds again when a clock
-- that jumped comes back. The general way marks it; this function leaves such a case to it.

-- Take one path or logical key, or refresh it. `outcome`: acquired, refreshed, blocked (`lock` is whose lock is in the
-- way), general. The targets are as in relay.coordination.lock_table.reach: `above` has the path and the folders above it,
-- from the root down; `bases` those and the root; below lies what is between `low` and `high`, and `whole` is the path.
CREATE OR REPLACE FUNCTION relay_acquire_lock(
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
  -- long is none), leases of the session that are over and are covered by this one, which go with it, a claim's file,
  -- whose mode stays, and a lease of another's that is over and not marked as lost yet, which whoever takes it over does.
  SELECT at.expires_at, at.others OR below.others OR patterns.others AS met,
    at.of_claim AND wanted_mode = 'shared' OR below.over OR patterns.over
      OR at.lapsed OR below.lapsed OR patterns.lapsed
      OR EXISTS (SELECT FROM lock_waits w WHERE w.until > now AND w.seen_at > now - 5) AS general
  INTO look FROM (
    SELECT max(f.expires_at) FILTER (WHERE f.own AND f.key = wanted_key) AS expires_at,
      coalesce(bool_or(f.own AND f.key = wanted_key AND f.task_id IS NOT NULL), false) AS of_claim,
      coalesce(bool_or(NOT f.own AND f.expires_at > now), false) AS others,
      coalesce(bool_or(NOT f.own AND f.expires_at <= now AND f.lost_at IS NULL), false) AS lapsed
    FROM (SELECT l.*, l.agent_id = agent AND l.session_id = session AS own FROM file_locks l
      WHERE l.kind = wanted_kind AND l.key = ANY (above)) AS f
  ) AS at, (
    SELECT coalesce(bool_or(f.expires_at > now AND f.kind = 'path'), false) AS others,
      coalesce(bool_or(f.expires_at <= now AND f.agent_id = agent AND f.session_id = session), false) AS over,
      coalesce(bool_or(f.expires_at <= now AND f.lost_at IS NULL AND f.kind = 'path'
        AND NOT (f.agent_id = agent AND f.session_id = session)), false) AS lapsed
    FROM file_locks f WHERE f.key > low AND f.key < high
  ) AS below, (
    SELECT coalesce(bool_or(f.expires_at > now), false) AS others,
      coalesce(bool_or(f.expires_at <= now AND f.base >= whole AND f.agent_id = agent AND f.session_id = session), false)
        AS over,
      coalesce(bool_or(f.expires_at <= now AND f.lost_at IS NULL AND NOT (f.agent_id = agent AND f.session_id = session)
        AND relay_overlaps(f.kind, f.key, f.shape, wanted_kind, wanted_key, wanted_shape)), false) AS lapsed
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
