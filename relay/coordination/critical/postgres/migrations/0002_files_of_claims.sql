-- How the own session stands, its row locked: `general` (a first call, or one that was dead), `due` when a heartbeat
-- is to be written, `claims` when it extends claims with it, else `fresh`. relay.coordination.sessions.Heartbeat;
-- 5 = GAP_S there. A heartbeat of a session whose claims have files is general: it extends every lock on one of them,
-- whether it was taken with the claim or before.
CREATE OR REPLACE FUNCTION relay_session_stands(agent text, session text, lease_s double precision, claim_s double precision,
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
    WHEN EXISTS (SELECT FROM work_queue w WHERE w.claimed_by = agent AND w.claimed_session = session
      AND w.status = 'claimed' AND w.files <> '[]') THEN 'general'
    ELSE 'claims' END;
END $$;
