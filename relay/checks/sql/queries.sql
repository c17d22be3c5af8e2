-- name: put_check_result
INSERT INTO check_results (tree, digest, attempt, name, state, exit_code, seconds, head, tail, output_bytes, metrics,
  reason, at)
SELECT :tree, :digest, coalesce(max(attempt), 0) + 1, :name, :state, :exit_code, :seconds, :head, :tail, :output_bytes,
  :metrics, :reason, :at
FROM check_results WHERE tree = :tree AND digest = :digest
RETURNING attempt

-- name: last_check_result
SELECT * FROM check_results WHERE tree = :tree AND digest = :digest ORDER BY attempt DESC LIMIT 1

-- name: forget_check_results
DELETE FROM check_results WHERE at < :before
