-- What meets a target is found in four ways, each by an index: the path itself and the folders above it (for a glob:
-- those of its base; for a logical key: itself); what lies below; the globs whose base is one of these folders; the
-- globs whose base lies below. `above`, `bases`: JSON lists; `low` and `high`: the range of what lies below, both ''
-- where nothing does; `whole`: the folder that it lies below. A lock holds while its own lease and its session's lie ahead.
-- Of the locks up to the fencing token `compared`, `met` (a JSON list of `kind:key`) says which meet the target: only later
-- ones are compared here, in the writer's turn (relay.coordination.compare).

-- name: take_lock
INSERT INTO file_locks (key, kind, agent_id, session_id, path, base, mode, fencing_token, reason, acquired_at,
  renewed_at, expires_at, task_id)
SELECT :key, :kind, :agent, :session, :path, :base, :mode,
  COALESCE((SELECT value FROM counters WHERE name = 'fence'), 0) + 1, :reason, :now, :now, :expires_at, :task_id
WHERE NOT EXISTS (
  SELECT 1 FROM (
    SELECT agent_id, session_id, mode FROM file_locks WHERE expires_at > :now
      AND kind = :literal AND key IN (SELECT value FROM json_each(:above))
    UNION ALL
    SELECT agent_id, session_id, mode FROM file_locks WHERE expires_at > :now
      AND key > :low AND key < :high AND kind = 'path' AND (:kind = 'path' OR CASE WHEN fencing_token <= :compared
      THEN kind || ':' || key IN (SELECT value FROM json_each(:met)) ELSE relay_overlaps(kind, key, :kind, :key) END)
    UNION ALL
    SELECT agent_id, session_id, mode FROM file_locks WHERE expires_at > :now
      AND base IN (SELECT value FROM json_each(:bases)) AND CASE WHEN fencing_token <= :compared
      THEN kind || ':' || key IN (SELECT value FROM json_each(:met)) ELSE relay_overlaps(kind, key, :kind, :key) END
    UNION ALL
    SELECT agent_id, session_id, mode FROM file_locks WHERE expires_at > :now
      AND base > :low AND base < :high AND (:kind = 'path' OR CASE WHEN fencing_token <= :compared
      THEN kind || ':' || key IN (SELECT value FROM json_each(:met)) ELSE relay_overlaps(kind, key, :kind, :key) END)
  ) l JOIN agent_sessions s ON s.agent_id = l.agent_id AND s.id = l.session_id
  WHERE s.ended_at IS NULL AND s.lease_until > :now AND (l.mode = 'exclusive' OR :mode = 'exclusive')
    AND NOT (l.agent_id = :agent AND l.session_id = :session)
) AND (:looked OR NOT EXISTS (SELECT 1 FROM lock_waits WHERE until > :now AND seen_at > :seen))
ON CONFLICT (key, kind, agent_id, session_id) DO UPDATE SET
  path = excluded.path,
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
RETURNING *, fencing_token > COALESCE((SELECT value FROM counters WHERE name = 'fence'), 0) AS fresh,
  EXISTS (SELECT 1 FROM file_locks own WHERE own.agent_id = :agent AND own.session_id = :session
    AND own.expires_at <= :now AND (own.key > :low AND own.key < :high OR own.base >= :whole AND own.base < :high)
  ) AS lost_below

-- name: forget_lost_lock
DELETE FROM file_locks WHERE key = :key AND kind = :kind AND agent_id = :agent AND session_id = :session
  AND expires_at <= :now

-- name: holders
SELECT l.* FROM (
  SELECT * FROM file_locks WHERE expires_at > :now
    AND kind = :literal AND key IN (SELECT value FROM json_each(:above))
  UNION ALL
  SELECT * FROM file_locks WHERE expires_at > :now
    AND key > :low AND key < :high AND kind = 'path' AND (:kind = 'path' OR CASE WHEN fencing_token <= :compared
      THEN kind || ':' || key IN (SELECT value FROM json_each(:met)) ELSE relay_overlaps(kind, key, :kind, :key) END)
  UNION ALL
  SELECT * FROM file_locks WHERE expires_at > :now
    AND base IN (SELECT value FROM json_each(:bases)) AND CASE WHEN fencing_token <= :compared
      THEN kind || ':' || key IN (SELECT value FROM json_each(:met)) ELSE relay_overlaps(kind, key, :kind, :key) END
  UNION ALL
  SELECT * FROM file_locks WHERE expires_at > :now
    AND base > :low AND base < :high AND (:kind = 'path' OR CASE WHEN fencing_token <= :compared
      THEN kind || ':' || key IN (SELECT value FROM json_each(:met)) ELSE relay_overlaps(kind, key, :kind, :key) END)
) l JOIN agent_sessions s ON s.agent_id = l.agent_id AND s.id = l.session_id
WHERE s.ended_at IS NULL AND s.lease_until > :now AND (l.mode = 'exclusive' OR :mode = 'exclusive')
  AND NOT (l.agent_id = :agent AND l.session_id = :session)
ORDER BY l.expires_at DESC, l.fencing_token

-- Leases of others that are over and meet the target, and are not marked as lost yet. `sure`: it meets without a
-- comparison; what lives is not compared.
-- name: lapsed
SELECT l.key, l.kind, l.agent_id, l.session_id FROM (
  SELECT f.*, true AS sure FROM file_locks f WHERE lost_at IS NULL AND kind = :literal AND key IN (SELECT value FROM json_each(:above))
  UNION ALL
  SELECT f.*, :kind = 'path' FROM file_locks f WHERE lost_at IS NULL AND key > :low AND key < :high AND kind = 'path'
  UNION ALL
  SELECT f.*, false FROM file_locks f WHERE lost_at IS NULL AND base IN (SELECT value FROM json_each(:bases))
  UNION ALL
  SELECT f.*, :kind = 'path' FROM file_locks f WHERE lost_at IS NULL AND base > :low AND base < :high
) l LEFT JOIN agent_sessions s ON s.agent_id = l.agent_id AND s.id = l.session_id
WHERE CASE WHEN (l.expires_at <= :now OR s.ended_at IS NOT NULL OR s.lease_until <= :now)
  AND (l.mode = 'exclusive' OR :mode = 'exclusive') AND NOT (l.agent_id = :agent AND l.session_id = :session)
  THEN l.sure OR CASE WHEN l.fencing_token <= :compared THEN l.kind || ':' || l.key IN (SELECT value FROM json_each(:met)) ELSE relay_overlaps(l.kind, l.key, :kind, :key) END ELSE false END

-- name: lose_lock
UPDATE file_locks SET lost_at = MIN(expires_at, :now), expires_at = 0
WHERE key = :key AND kind = :kind AND agent_id = :agent AND session_id = :session

-- What a target may have to be compared with, of holders other than this one; `token`: the latest of its locks.
-- name: to_compare
SELECT kind, key, base, MAX(fencing_token) AS token FROM file_locks
WHERE lost_at IS NULL AND kind <> 'key' AND NOT (agent_id = :agent AND session_id = :session)
GROUP BY kind, key, base

-- name: free_lock
DELETE FROM file_locks WHERE key = :key AND kind = :kind AND agent_id = :agent AND session_id = :session
  AND expires_at > :now AND (:token IS NULL OR fencing_token = :token) RETURNING *

-- name: own_lock
SELECT * FROM file_locks WHERE key = :key AND kind = :kind AND agent_id = :agent AND session_id = :session

-- name: renew_lock
UPDATE file_locks SET renewed_at = :now, expires_at = MAX(expires_at, :expires_at)
WHERE key = :key AND kind = :kind AND agent_id = :agent AND session_id = :session AND expires_at > :now RETURNING *

-- name: force_lock
UPDATE file_locks SET expires_at = :now, forced_by = :by, forced_why = :why
WHERE key = :key AND kind = :kind AND agent_id = :agent AND session_id = :session RETURNING *

-- name: locks_of_session
SELECT * FROM file_locks WHERE agent_id = :agent AND session_id = :session

-- name: free_locks_of_session
DELETE FROM file_locks WHERE agent_id = :agent AND session_id = :session AND expires_at > :now

-- name: cut_locks_of_session
UPDATE file_locks SET expires_at = :at, forced_by = :by, forced_why = :why
WHERE agent_id = :agent AND session_id = :session AND expires_at > :at AND forced_by IS NULL

-- name: locks_of_task
SELECT * FROM file_locks WHERE task_id = :task_id

-- name: other_claims_of_session
SELECT DISTINCT w.id, w.files FROM file_locks l JOIN work_queue w ON w.claimed_by = l.agent_id
  AND w.claimed_session = l.session_id AND w.status = 'claimed'
WHERE l.task_id = :task_id AND w.id <> :task_id AND w.files <> '[]'

-- name: hand_on_lock
UPDATE file_locks SET task_id = :task_id
WHERE key = :key AND kind = :kind AND agent_id = :agent AND session_id = :session

-- name: free_locks_of_task
DELETE FROM file_locks WHERE task_id = :task_id AND expires_at > :now

-- name: cut_locks_of_task
UPDATE file_locks SET expires_at = :at, forced_by = :by, forced_why = :why
WHERE task_id = :task_id AND expires_at > :at AND forced_by IS NULL

-- name: living_locks
SELECT l.* FROM file_locks l JOIN agent_sessions s ON s.agent_id = l.agent_id AND s.id = l.session_id
WHERE l.expires_at > :now AND s.ended_at IS NULL AND s.lease_until > :now ORDER BY l.expires_at

-- name: forget_locks
DELETE FROM file_locks WHERE expires_at < :before AND COALESCE(lost_at, expires_at) < :before

-- name: waits
SELECT * FROM lock_waits WHERE until > :now AND seen_at > :seen ORDER BY id

-- name: put_wait
INSERT INTO lock_waits (agent_id, session_id, wanted, mode, since, until, seen_at)
VALUES (:agent, :session, :wanted, :mode, :now, :until, :now) RETURNING id

-- name: see_wait
UPDATE lock_waits SET seen_at = :now WHERE id = :id AND seen_at > :seen

-- name: forget_wait
DELETE FROM lock_waits WHERE id = :id

-- name: forget_waits_of_session
DELETE FROM lock_waits WHERE agent_id = :agent AND session_id = :session

-- name: forget_waits
DELETE FROM lock_waits WHERE until < :before OR seen_at < :before
