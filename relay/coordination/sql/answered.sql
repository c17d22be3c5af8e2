-- name: answered
SELECT request_sha, answer FROM answered_requests
WHERE agent_id = :agent_id AND operation = :operation AND key = :key AND at > :since

-- name: put_answer
INSERT INTO answered_requests (agent_id, operation, key, request_sha, answer, at)
VALUES (:agent_id, :operation, :key, :request_sha, :answer, :at)
ON CONFLICT (agent_id, operation, key) DO UPDATE SET request_sha = excluded.request_sha, answer = excluded.answer,
  at = excluded.at

-- name: forget_answers
DELETE FROM answered_requests WHERE at <= :before

-- name: forget_answer
DELETE FROM answered_requests WHERE agent_id = :agent_id AND operation = :operation AND key = :key
