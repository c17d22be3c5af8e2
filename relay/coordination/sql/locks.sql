-- What meets a target is found in four ways, each by an index: the path itself and the folders above it (for a glob:
-- those of its base; for a logical key: itself); what lies below; the globs whose base is one of these folders; the
-- globs whose base lies below. `above`, `bases`: JSON lists; `low` and `high`: the range of what lies below, both ''
-- where nothing does; `whole`: the folder that it lies below. A lock holds while its own lease and its session's lie ahead.
-- Of the locks up to the fencing token `compared`, `met` (a JSON list of `kind:key`) says which meet the target: only later
-- ones are compared here, in the writer's turn (relay/coordination/locks/conflict_precheck.py).

-- name: forget_lost_lock
DELETE FROM file_locks WHERE key = :key AND kind = :kind AND agent_id = :agent AND session_id = :session
  AND expires_at <= :now

-- What a target may have to be compared with, of holders other than this one; `token`: the latest of its locks.
-- name: to_compare
SELECT kind, key, base, MAX(fencing_token) AS token FROM file_locks
WHERE lost_at IS NULL AND kind <> 'key' AND NOT (agent_id = :agent AND session_id = :session)
GROUP BY kind, key, base

-- name: own_lock
SELECT * FROM file_locks WHERE key = :key AND kind = :kind AND agent_id = :agent AND session_id = :session

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
