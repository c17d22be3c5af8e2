-- name: session
SELECT s.*, (SELECT MIN(w.lease_until - MAX(0.75 * COALESCE(w.lease_s, :claim_s), COALESCE(w.lease_s, :claim_s) - :gap))
  FROM work_queue w WHERE w.claimed_by = :agent AND w.claimed_session = :session AND w.status = 'claimed'
  AND w.lease_until > :now) AS claims_due
FROM agent_sessions s WHERE s.agent_id = :agent AND s.id = :session

-- name: beat
UPDATE agent_sessions SET heartbeat_at = :now, lease_until = MAX(lease_until, :lease_until)
WHERE agent_id = :agent AND id = :session

-- name: promise
UPDATE agent_sessions SET lease_until = MAX(lease_until, :until) WHERE agent_id = :agent AND id = :session

-- name: extend_claims
UPDATE work_queue SET lease_until = MAX(lease_until, :now + COALESCE(lease_s, :claim_s))
WHERE claimed_by = :agent AND claimed_session = :session AND status = 'claimed' AND lease_until > :now

-- name: extend_locks
UPDATE file_locks SET expires_at = :until WHERE agent_id = :agent AND session_id = :session AND expires_at > :now
  AND expires_at < :until AND kind || ':' || key IN (SELECT value FROM json_each(:names))
