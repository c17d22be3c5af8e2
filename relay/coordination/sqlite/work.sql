-- `rank` and `number`: of the last one that was passed over.
-- name: next_ready
SELECT id, number, rank, files FROM work_queue WHERE status = 'pending' AND archived_at IS NULL AND not_before <= :now
  AND (rank, number) > (:rank, :number) ORDER BY rank, number LIMIT :limit

-- name: next_ready_of_types
SELECT w.id, w.number, w.rank, w.files FROM json_each(:types) t JOIN work_queue w ON w.id IN (
    SELECT id FROM work_queue WHERE status = 'pending' AND archived_at IS NULL AND task_type = t.value
      AND not_before <= :now AND (rank, number) > (:rank, :number) ORDER BY rank, number LIMIT :limit)
  ORDER BY w.rank, w.number LIMIT :limit

-- name: claim_next
UPDATE work_queue SET status = 'claimed', claimed_by = :agent, claimed_session = :session, claimed_type = :agent_type,
  claimed_at = :now, lease_until = :lease_until, lease_s = :lease_s, fence = :fence, updated_at = :now, note = NULL
WHERE id = :id AND status = 'pending' AND archived_at IS NULL AND not_before <= :now
RETURNING *

-- name: end_claim
UPDATE work_queue SET status = :status, result = :result, error_message = :error_message, completed_at = :now,
  updated_at = :now, lease_until = NULL, note = NULL
WHERE id = :id AND status = 'claimed' AND archived_at IS NULL AND claimed_by = :agent
  AND (claimed_session = :session OR (claimed_session IS NULL AND :person = 1))
  AND fence = COALESCE(:fence, fence) AND (lease_until IS NULL OR lease_until > :now)
RETURNING *

-- name: renew_claim
UPDATE work_queue SET lease_until = MAX(lease_until, :lease_until)
WHERE id = :id AND status = 'claimed' AND claimed_by = :agent AND claimed_session = :session AND lease_until > :now
RETURNING *

-- name: lost_claims
SELECT w.*, MIN(w.lease_until, COALESCE(s.ended_at, w.lease_until), COALESCE(s.lease_until, w.lease_until)) AS lost_at,
  w.lease_until <= :now AS expired
FROM work_queue w LEFT JOIN agent_sessions s ON s.agent_id = w.claimed_by AND s.id = w.claimed_session
WHERE w.status = 'claimed' AND w.lease_until IS NOT NULL
  AND (w.lease_until <= :now OR s.ended_at IS NOT NULL OR s.lease_until <= :now)
ORDER BY w.lease_until

-- name: work_counts
SELECT (SELECT COUNT(*) FROM work_queue WHERE status = 'blocked' AND archived_at IS NULL) AS blocked,
  (SELECT COUNT(*) FROM work_queue WHERE status = 'claimed' AND +archived_at IS NULL) AS claimed,
  (SELECT COUNT(*) FROM work_queue WHERE status = 'pending' AND archived_at IS NULL AND not_before > :now)
    AS backing_off,
  (SELECT MIN(not_before) FROM work_queue WHERE status = 'pending' AND archived_at IS NULL AND not_before > :now)
    AS next_at,
  0 AS other_types

-- The same of these types only; and what is ready of others.
-- name: work_counts_of_types
SELECT (SELECT COUNT(*) FROM work_queue WHERE status = 'blocked' AND archived_at IS NULL
    AND task_type IN (SELECT value FROM json_each(:types))) AS blocked,
  (SELECT COUNT(*) FROM work_queue WHERE status = 'claimed' AND +archived_at IS NULL
    AND task_type IN (SELECT value FROM json_each(:types))) AS claimed,
  (SELECT COUNT(*) FROM work_queue WHERE status = 'pending' AND archived_at IS NULL AND not_before > :now
    AND task_type IN (SELECT value FROM json_each(:types))) AS backing_off,
  (SELECT MIN(not_before) FROM work_queue WHERE status = 'pending' AND archived_at IS NULL AND not_before > :now
    AND task_type IN (SELECT value FROM json_each(:types))) AS next_at,
  (SELECT COUNT(*) FROM (SELECT 1 FROM work_queue WHERE status = 'pending' AND archived_at IS NULL
    AND not_before <= :now AND task_type NOT IN (SELECT value FROM json_each(:types)) LIMIT 1000) AS others)
    AS other_types

-- name: needs_within
WITH RECURSIVE reached (id) AS (
  SELECT value FROM json_each(:ids) UNION SELECT n.needs FROM work_needs n JOIN reached r ON n.task_id = r.id)
SELECT n.task_id, n.needs FROM reached r JOIN work_needs n ON n.task_id = r.id

-- name: tasks_by_id
SELECT * FROM work_queue WHERE id IN (SELECT value FROM json_each(:ids)) ORDER BY number

-- What the tasks are about that these agents have claimed.
-- name: texts_of_claims
SELECT w.claimed_by AS agent, w.number, w.task_type, w.task_description FROM json_each(:agents) a
JOIN work_queue w ON w.claimed_by = a.value AND w.status = 'claimed'
