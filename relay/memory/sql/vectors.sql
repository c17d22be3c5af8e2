-- name: last_vector
SELECT COALESCE(MAX(number), 0) AS number FROM memory_vectors WHERE model = :model

-- name: memories_after
SELECT * FROM memory_episodic WHERE number > :after AND forgotten_at IS NULL ORDER BY number LIMIT :limit

-- Not of what was forgotten meanwhile.
-- name: put_vector
INSERT INTO memory_vectors (model, number, vector)
SELECT :model, m.number, :vector FROM memory_episodic m WHERE m.number = :number AND m.forgotten_at IS NULL
ON CONFLICT DO NOTHING

-- name: vectors_after
SELECT number, vector FROM memory_vectors WHERE model = :model AND number > :after ORDER BY number LIMIT :limit

-- name: forget_vectors
DELETE FROM memory_vectors WHERE number = :number
