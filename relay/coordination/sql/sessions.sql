-- name: session_alive
SELECT id FROM agent_sessions WHERE agent_id = :agent AND id = :session AND ended_at IS NULL AND lease_until > :now

-- name: living_sessions_of
SELECT s.id, EXISTS (SELECT 1 FROM file_locks l WHERE l.agent_id = s.agent_id AND l.session_id = s.id) AS locks
FROM agent_sessions s WHERE s.agent_id = :agent AND s.ended_at IS NULL AND s.lease_until > :now ORDER BY s.id

-- name: last_session_of
SELECT id FROM agent_sessions WHERE agent_id = :agent ORDER BY heartbeat_at DESC, id LIMIT 1

-- name: start_session
INSERT INTO agent_sessions (agent_id, id, agent_type, kind, started_at, heartbeat_at, lease_until)
VALUES (:agent, :session, :agent_type, :kind, :now, :now, :lease_until)
ON CONFLICT (agent_id, id) DO UPDATE SET agent_type = excluded.agent_type, kind = excluded.kind,
  started_at = excluded.started_at, heartbeat_at = excluded.heartbeat_at, lease_until = excluded.lease_until,
  ended_at = NULL, end_reason = NULL

-- name: files_of_claims
SELECT files, lease_until FROM work_queue WHERE claimed_by = :agent AND claimed_session = :session
  AND status = 'claimed' AND files <> '[]' AND lease_until > :now

-- name: bury_locks
UPDATE file_locks SET expires_at = :died WHERE agent_id = :agent AND session_id = :session AND expires_at > :died

-- name: bury_claims
UPDATE work_queue SET lease_until = :died
WHERE claimed_by = :agent AND claimed_session = :session AND status = 'claimed' AND lease_until > :died

-- name: end_session
UPDATE agent_sessions SET ended_at = :now, end_reason = :reason
WHERE agent_id = :agent AND id = :session AND ended_at IS NULL RETURNING *

-- name: end_dead_sessions
UPDATE agent_sessions SET ended_at = :now, end_reason = 'lease' WHERE ended_at IS NULL AND lease_until <= :now
RETURNING *

-- By the index of those that are open: the order is no column, so that SQLite does not walk all for it.
-- name: living_sessions
SELECT s.*, (SELECT COUNT(*) FROM file_locks l WHERE l.agent_id = s.agent_id AND l.session_id = s.id
    AND l.expires_at > :now) AS locks,
  (SELECT COUNT(*) FROM work_queue w WHERE w.claimed_by = s.agent_id AND w.claimed_session = s.id
    AND w.status = 'claimed' AND (w.lease_until IS NULL OR w.lease_until > :now)) AS claims,
  a.program, a.person, a.state, a.since, a.branch, a.checkout, a.tool, a.paths
FROM agent_sessions s LEFT JOIN attached_sessions a ON a.agent_id = s.agent_id AND a.session_id = s.id
  AND a.state <> 'gone'
WHERE s.ended_at IS NULL AND s.lease_until > :now ORDER BY s.started_at + 0 DESC, s.id

-- name: all_sessions
SELECT s.*, (SELECT COUNT(*) FROM file_locks l WHERE l.agent_id = s.agent_id AND l.session_id = s.id
    AND l.expires_at > :now) AS locks,
  (SELECT COUNT(*) FROM work_queue w WHERE w.claimed_by = s.agent_id AND w.claimed_session = s.id
    AND w.status = 'claimed' AND (w.lease_until IS NULL OR w.lease_until > :now)) AS claims,
  a.program, a.person, a.state, a.since, a.branch, a.checkout, a.tool, a.paths
FROM agent_sessions s LEFT JOIN attached_sessions a ON a.agent_id = s.agent_id AND a.session_id = s.id
  AND a.state <> 'gone'
ORDER BY s.started_at DESC LIMIT :limit
