-- The work queue. A task that waits for others is `blocked` and in none of the indexes that a claim looks at.

-- name: claims_of_session
SELECT * FROM work_queue WHERE status = 'claimed' AND claimed_by = :agent AND claimed_session = :session
ORDER BY number

-- name: taken_since
SELECT task_description, claimed_at, completed_at FROM work_queue WHERE id IN (
  SELECT id FROM work_queue WHERE claimed_by = :agent AND status = 'claimed'
  UNION ALL SELECT id FROM work_queue WHERE claimed_by = :agent AND status = 'completed' AND completed_at >= :since)
ORDER BY number LIMIT :limit

-- name: tasks_with_files
SELECT task_description FROM work_queue WHERE task_description LIKE '%relay-file:%'

-- name: ready
SELECT * FROM work_queue WHERE status = 'pending' AND archived_at IS NULL AND not_before <= :now
ORDER BY rank, number LIMIT :limit

-- name: needs_of
SELECT w.id, w.number, w.status, w.archived_at FROM work_needs n JOIN work_queue w ON w.id = n.needs
WHERE n.task_id = :task_id ORDER BY w.number

-- name: dependents
SELECT w.* FROM work_needs n JOIN work_queue w ON w.id = n.task_id
WHERE n.needs = :needs AND w.status IN ('pending', 'blocked') AND w.archived_at IS NULL ORDER BY w.number

-- name: put_need
INSERT INTO work_needs (task_id, needs) VALUES (:task_id, :needs) ON CONFLICT DO NOTHING

-- name: forget_needs
DELETE FROM work_needs WHERE task_id = :task_id

-- name: all_needs
SELECT task_id, needs FROM work_needs

-- name: forget_all_needs
DELETE FROM work_needs

-- name: leases
SELECT id, fence, lease_until FROM work_queue WHERE status = 'claimed' AND lease_until IS NOT NULL
