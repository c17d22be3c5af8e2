-- name: put_verification
INSERT INTO verifications (number, id, source, source_key, agent, asker, branch, at_commit, base, tree, files, summary, task,
  about, state, tier, decides, reason, at, began, ended, cause)
VALUES (:number, :id, :source, :source_key, :agent, :asker, :branch, :at_commit, :base, :tree, :files, :summary, :task,
  :about, :state, :tier, :decides, :reason, :at, :began, :ended, :cause)

-- name: change_verification
UPDATE verifications SET branch = :branch, at_commit = :at_commit, base = :base, tree = :tree, files = :files,
  about = :about, state = :state, tier = :tier, decides = :decides, reason = :reason, began = :began, ended = :ended
WHERE number = :number

-- name: verification
SELECT * FROM verifications WHERE number = :number

-- name: verification_by_id
SELECT * FROM verifications WHERE id = :id

-- name: verification_by_source
SELECT * FROM verifications WHERE source_key = :source_key

-- name: open_verifications
SELECT * FROM verifications WHERE state IN ('queued', 'running', 'waiting') ORDER BY number

-- name: newest_verifications
SELECT * FROM verifications WHERE number < :before ORDER BY number DESC LIMIT :limit

-- name: newest_of_agent
SELECT * FROM verifications WHERE agent = :agent AND number < :before ORDER BY number DESC LIMIT :limit

-- name: newest_of_task
SELECT * FROM verifications WHERE task = :task AND number < :before ORDER BY number DESC LIMIT :limit

-- name: put_result
INSERT INTO verification_results (verification, policy, attempt, tier, executor, digest, tree, state, always, reason,
  exit_code, seconds, head, tail, output_bytes, flaky, sandboxed, reused, url, began, ended)
VALUES (:verification, :policy, :attempt, :tier, :executor, :digest, :tree, :state, :always, :reason, :exit_code, :seconds,
  :head, :tail, :output_bytes, :flaky, :sandboxed, :reused, :url, :began, :ended)
ON CONFLICT (verification, policy, attempt) DO UPDATE SET state = excluded.state, reason = excluded.reason,
  exit_code = excluded.exit_code, seconds = excluded.seconds, head = excluded.head, tail = excluded.tail,
  output_bytes = excluded.output_bytes, flaky = excluded.flaky, sandboxed = excluded.sandboxed, reused = excluded.reused,
  url = excluded.url, began = excluded.began, ended = excluded.ended

-- name: results_of
SELECT * FROM verification_results WHERE verification = :verification ORDER BY policy, attempt

-- name: waiting_like
SELECT * FROM verification_results WHERE tree = :tree AND digest = :digest AND state = 'waiting' ORDER BY verification

-- name: forget_output
UPDATE verification_results SET head = '', tail = '' WHERE ended < :before AND (head <> '' OR tail <> '')

-- name: same_run
SELECT * FROM verification_results
WHERE tree = :tree AND digest = :digest AND executor = :executor AND reused IS NULL AND state IN ('passed', 'failed')
ORDER BY verification DESC, attempt DESC LIMIT 1

-- name: put_policy
INSERT INTO verification_policies (name, policy, maker, at) VALUES (:name, :policy, :maker, :at)
ON CONFLICT (name) DO NOTHING

-- name: drop_policy
DELETE FROM verification_policies WHERE name = :name

-- name: policies
SELECT * FROM verification_policies ORDER BY name

-- name: put_approval
INSERT INTO approval_queue (number, verification, policies, files, state, asker, agent, at, expires, decided_by, decided_at,
  reason)
VALUES (:number, :verification, :policies, :files, :state, :asker, :agent, :at, :expires, NULL, NULL, '')

-- name: decide_approval
UPDATE approval_queue SET state = :state, decided_by = :decided_by, decided_at = :now, reason = :reason
WHERE number = :number AND state = 'waiting' AND (expires > :now OR :state IN ('expired', 'withdrawn'))
RETURNING *

-- name: approval
SELECT * FROM approval_queue WHERE number = :number

-- name: approvals_of
SELECT * FROM approval_queue WHERE verification = :verification ORDER BY number

-- name: waiting_approvals
SELECT * FROM approval_queue WHERE state = 'waiting' ORDER BY number

-- name: newest_approvals
SELECT * FROM approval_queue ORDER BY number DESC LIMIT :limit
