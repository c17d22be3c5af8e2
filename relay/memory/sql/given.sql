-- name: given_memory
SELECT * FROM memory_episodic WHERE id = :id
