-- name: task_by_number
SELECT * FROM work_queue WHERE number = :number

-- name: task_by_id
SELECT * FROM work_queue WHERE id = :id

-- name: task_by_source
SELECT * FROM work_queue WHERE source = :source

-- name: shown_tasks
SELECT * FROM work_queue WHERE archived_at IS NULL ORDER BY number

-- What somebody has, and what ended badly.
-- name: tasks_in_hand
SELECT * FROM work_queue WHERE status IN ('claimed', 'failed', 'dead') AND archived_at IS NULL ORDER BY number

-- name: tasks_counted
SELECT count(CASE WHEN status IN ('pending', 'blocked') THEN 1 END) AS waiting, max(number) AS last
FROM work_queue WHERE archived_at IS NULL

-- name: tasks_after
SELECT * FROM work_queue WHERE archived_at IS NULL AND number > :number ORDER BY number LIMIT :limit

-- name: all_tasks
SELECT * FROM work_queue ORDER BY number

-- name: put_task
INSERT INTO work_queue (id, number, task_type, task_description, input_data, priority, rank, status, depends_on,
  claimed_by, claimed_at, lease_until, fence, attempts, result, error_message, created_by, created_at, updated_at,
  completed_at, archived_at, claimed_session, claimed_type, not_before, max_attempts, lease_s, on_failed, files, note,
  past_claims, given, source, source_sha)
VALUES (:id, :number, :task_type, :task_description, :input_data, :priority, :rank, :status, :depends_on,
  :claimed_by, :claimed_at, :lease_until, :fence, :attempts, :result, :error_message, :created_by, :created_at,
  :updated_at, :completed_at, :archived_at, :claimed_session, :claimed_type, :not_before, :max_attempts, :lease_s,
  :on_failed, :files, :note, :past_claims, :given, :source, :source_sha)
ON CONFLICT (id) DO UPDATE SET task_type = excluded.task_type, task_description = excluded.task_description,
  input_data = excluded.input_data, priority = excluded.priority, rank = excluded.rank, status = excluded.status,
  depends_on = excluded.depends_on, claimed_by = excluded.claimed_by, claimed_at = excluded.claimed_at,
  lease_until = excluded.lease_until, fence = excluded.fence, attempts = excluded.attempts,
  result = excluded.result, error_message = excluded.error_message, updated_at = excluded.updated_at,
  completed_at = excluded.completed_at, archived_at = excluded.archived_at,
  claimed_session = excluded.claimed_session, claimed_type = excluded.claimed_type, not_before = excluded.not_before,
  max_attempts = excluded.max_attempts, lease_s = excluded.lease_s, on_failed = excluded.on_failed,
  files = excluded.files, note = excluded.note, past_claims = excluded.past_claims, given = excluded.given,
  source = excluded.source, source_sha = excluded.source_sha

-- name: forget_tasks
DELETE FROM work_queue

-- name: put_change
INSERT INTO task_changes (pos, event_id, undoable) VALUES (:pos, :event_id, :undoable)

-- name: last_undoable
SELECT event_id FROM task_changes WHERE undoable = 1 AND undone_by IS NULL ORDER BY pos DESC LIMIT :limit

-- name: last_changes
SELECT event_id, undone_by FROM task_changes ORDER BY pos DESC LIMIT :limit

-- name: mark_undone
UPDATE task_changes SET undone_by = :undone_by WHERE event_id = :event_id AND undone_by IS NULL

-- name: last_change
SELECT COALESCE(MAX(pos), 0) AS pos FROM task_changes

-- name: all_changes
SELECT pos, event_id, undoable, undone_by FROM task_changes ORDER BY pos

-- name: forget_changes
DELETE FROM task_changes
