-- name: take_lock
INSERT INTO file_locks (key, kind, agent_id, session_id, path, base, mode, fencing_token, reason, acquired_at,
  renewed_at, expires_at, task_id, shape)
SELECT CAST(:key AS text), CAST(:kind AS text), CAST(:agent AS text), CAST(:session AS text), CAST(:path AS text),
  CAST(:base AS text), CAST(:mode AS text), relay_last_token() + 1,
  CAST(:reason AS text), CAST(:now AS double precision), CAST(:now AS double precision),
  CAST(:expires_at AS double precision), CAST(:task_id AS text), CAST(:shape AS jsonb)
WHERE NOT EXISTS (
  SELECT 1 FROM (
    SELECT agent_id, session_id, mode FROM file_locks WHERE expires_at > :now
      AND kind = CAST(:literal AS text) AND key = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:above AS jsonb))))
    UNION ALL
    SELECT agent_id, session_id, mode FROM file_locks WHERE expires_at > :now
      AND key > :low AND key < :high AND kind = 'path' AND (CAST(:kind AS text) = 'path' OR CASE WHEN fencing_token <= CAST(:compared AS bigint)
      THEN kind || ':' || key = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:met AS jsonb)))) ELSE relay_overlaps(kind, key, shape, :kind, :key, CAST(:shape AS jsonb)) END)
    UNION ALL
    SELECT agent_id, session_id, mode FROM file_locks WHERE expires_at > :now
      AND base = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:bases AS jsonb)))) AND CASE WHEN fencing_token <= CAST(:compared AS bigint)
      THEN kind || ':' || key = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:met AS jsonb)))) ELSE relay_overlaps(kind, key, shape, :kind, :key, CAST(:shape AS jsonb)) END
    UNION ALL
    SELECT agent_id, session_id, mode FROM file_locks WHERE expires_at > :now
      AND base > :low AND base < :high AND (CAST(:kind AS text) = 'path' OR CASE WHEN fencing_token <= CAST(:compared AS bigint)
      THEN kind || ':' || key = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:met AS jsonb)))) ELSE relay_overlaps(kind, key, shape, :kind, :key, CAST(:shape AS jsonb)) END)
  ) l JOIN agent_sessions s ON s.agent_id = l.agent_id AND s.id = l.session_id
  WHERE s.ended_at IS NULL AND s.lease_until > :now AND (l.mode = 'exclusive' OR CAST(:mode AS text) = 'exclusive')
    AND NOT (l.agent_id = :agent AND l.session_id = :session)
) AND (CAST(:looked AS integer) <> 0 OR NOT EXISTS (SELECT 1 FROM lock_waits WHERE until > :now AND seen_at > :seen))
ON CONFLICT (key, kind, agent_id, session_id) DO UPDATE SET
  path = excluded.path,
  shape = excluded.shape,
  mode = CASE WHEN file_locks.expires_at > excluded.acquired_at AND file_locks.task_id IS NOT NULL
    THEN file_locks.mode ELSE excluded.mode END,
  renewed_at = excluded.renewed_at,
  fencing_token = CASE WHEN file_locks.expires_at > excluded.acquired_at THEN file_locks.fencing_token
    ELSE excluded.fencing_token END,
  reason = CASE WHEN file_locks.expires_at <= excluded.acquired_at THEN excluded.reason
    WHEN excluded.task_id IS NOT NULL THEN file_locks.reason ELSE COALESCE(excluded.reason, file_locks.reason) END,
  acquired_at = CASE WHEN file_locks.expires_at > excluded.acquired_at THEN file_locks.acquired_at
    ELSE excluded.acquired_at END,
  expires_at = CASE WHEN file_locks.expires_at > excluded.expires_at THEN file_locks.expires_at
    ELSE excluded.expires_at END,
  task_id = CASE WHEN file_locks.expires_at > excluded.acquired_at THEN file_locks.task_id
    ELSE excluded.task_id END,
  forced_by = NULL,
  forced_why = NULL,
  lost_at = NULL
RETURNING *, fencing_token > relay_last_token() AS fresh,
  EXISTS (SELECT 1 FROM file_locks own WHERE own.agent_id = :agent AND own.session_id = :session
    AND own.expires_at <= :now AND (own.key > :low AND own.key < :high OR own.base >= :whole AND own.base < :high)
  ) AS lost_below

-- name: holders
SELECT l.* FROM (
  SELECT * FROM file_locks WHERE expires_at > :now
    AND kind = CAST(:literal AS text) AND key = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:above AS jsonb))))
  UNION ALL
  SELECT * FROM file_locks WHERE expires_at > :now
    AND key > :low AND key < :high AND kind = 'path' AND (CAST(:kind AS text) = 'path' OR CASE WHEN fencing_token <= CAST(:compared AS bigint)
      THEN kind || ':' || key = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:met AS jsonb)))) ELSE relay_overlaps(kind, key, shape, :kind, :key, CAST(:shape AS jsonb)) END)
  UNION ALL
  SELECT * FROM file_locks WHERE expires_at > :now
    AND base = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:bases AS jsonb)))) AND CASE WHEN fencing_token <= CAST(:compared AS bigint)
      THEN kind || ':' || key = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:met AS jsonb)))) ELSE relay_overlaps(kind, key, shape, :kind, :key, CAST(:shape AS jsonb)) END
  UNION ALL
  SELECT * FROM file_locks WHERE expires_at > :now
    AND base > :low AND base < :high AND (CAST(:kind AS text) = 'path' OR CASE WHEN fencing_token <= CAST(:compared AS bigint)
      THEN kind || ':' || key = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:met AS jsonb)))) ELSE relay_overlaps(kind, key, shape, :kind, :key, CAST(:shape AS jsonb)) END)
) l JOIN agent_sessions s ON s.agent_id = l.agent_id AND s.id = l.session_id
WHERE s.ended_at IS NULL AND s.lease_until > :now AND (l.mode = 'exclusive' OR CAST(:mode AS text) = 'exclusive')
  AND NOT (l.agent_id = :agent AND l.session_id = :session)
ORDER BY l.expires_at DESC, l.fencing_token

-- Leases of others that are over and meet the target, and are not marked as lost yet. `sure`: it meets without a
-- comparison; what lives is not compared.
-- name: lapsed
SELECT l.key, l.kind, l.agent_id AS agent, l.session_id AS session FROM (
  SELECT f.*, true AS sure FROM file_locks f WHERE lost_at IS NULL AND kind = CAST(:literal AS text) AND key = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:above AS jsonb))))
  UNION ALL
  SELECT f.*, CAST(:kind AS text) = 'path' FROM file_locks f WHERE lost_at IS NULL AND key > :low AND key < :high AND kind = 'path'
  UNION ALL
  SELECT f.*, false FROM file_locks f WHERE lost_at IS NULL AND base = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:bases AS jsonb))))
  UNION ALL
  SELECT f.*, CAST(:kind AS text) = 'path' FROM file_locks f WHERE lost_at IS NULL AND base > :low AND base < :high
) l LEFT JOIN agent_sessions s ON s.agent_id = l.agent_id AND s.id = l.session_id
WHERE CASE WHEN (l.expires_at <= :now OR s.ended_at IS NOT NULL OR s.lease_until <= :now)
  AND (l.mode = 'exclusive' OR CAST(:mode AS text) = 'exclusive') AND NOT (l.agent_id = :agent AND l.session_id = :session)
  THEN l.sure OR CASE WHEN l.fencing_token <= CAST(:compared AS bigint) THEN l.kind || ':' || l.key = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:met AS jsonb)))) ELSE relay_overlaps(l.kind, l.key, l.shape, :kind, :key, CAST(:shape AS jsonb)) END ELSE false END

-- name: lose_lock
UPDATE file_locks SET lost_at = LEAST(expires_at, :now), expires_at = 0
WHERE key = :key AND kind = :kind AND agent_id = :agent AND session_id = :session

-- name: free_lock
DELETE FROM file_locks WHERE key = :key AND kind = :kind AND agent_id = :agent AND session_id = :session
  AND expires_at > :now AND fencing_token = COALESCE(CAST(:token AS bigint), fencing_token) RETURNING *

-- name: renew_lock
UPDATE file_locks SET renewed_at = :now, expires_at = GREATEST(expires_at, :expires_at)
WHERE key = :key AND kind = :kind AND agent_id = :agent AND session_id = :session AND expires_at > :now RETURNING *
