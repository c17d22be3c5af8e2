-- name: put_check_result
INSERT INTO check_results (tree, digest, attempt, name, state, exit_code, seconds, head, tail, output_bytes, metrics,
  reason, at)
SELECT :tree, :digest, coalesce(max(attempt), 0) + 1, :name, :state, :exit_code, :seconds, :head, :tail, :output_bytes,
  :metrics, :reason, :at
FROM check_results WHERE tree = :tree AND digest = :digest
RETURNING attempt

-- name: last_check_result
SELECT * FROM check_results WHERE tree = :tree AND digest = :digest ORDER BY attempt DESC LIMIT 1

-- name: first_passed_check
SELECT * FROM check_results WHERE name = :name AND state = 'passed' ORDER BY at, tree, digest, attempt LIMIT 1

-- name: forget_check_results
DELETE FROM check_results WHERE at < :before AND NOT (state = 'passed' AND at = (
  SELECT min(f.at) FROM check_results f WHERE f.name = check_results.name AND f.state = 'passed'))
