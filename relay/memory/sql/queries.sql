-- name: alike
SELECT * FROM memory_episodic
WHERE agent_id = :agent AND event_type = :event_type AND summary = :summary AND updated_at > :since
ORDER BY updated_at DESC LIMIT 1

-- name: put_memory
INSERT INTO memory_episodic (number, id, agent_id, session_id, event_type, summary, details, outcome, lessons, tags,
  created_at, updated_at)
VALUES (:number, :id, :agent, :session, :event_type, :summary, :details, :outcome, :lessons, :tags, :now, :now)

-- name: join_memory
UPDATE memory_episodic SET details = :details, outcome = :outcome, lessons = :lessons, tags = :tags,
  merged = merged + 1, updated_at = :now
WHERE number = :number

-- name: newest_memories
SELECT * FROM memory_episodic WHERE updated_at > :since ORDER BY updated_at DESC, number DESC LIMIT :limit
