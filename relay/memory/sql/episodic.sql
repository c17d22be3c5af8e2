-- Without `|| ''` SQLite would put the text in the place of what is indexed, and find no index.
-- Of the same sayer: an import joins no memory that its agent, or another importer, has told.
-- name: alike
SELECT * FROM memory_episodic
WHERE agent_id = :agent AND length(summary) = length(CAST(:summary AS text))
  AND substr(summary, 1, 16) = substr(CAST(:summary AS text), 1, 16) AND event_type = :event_type AND summary || '' = :summary
  AND COALESCE(imported_by, agent_id) = CAST(:sayer AS text) AND updated_at > :since
  AND created_at < :until AND forgotten_at IS NULL
ORDER BY updated_at DESC, number DESC LIMIT 1

-- name: put_memory
INSERT INTO memory_episodic (number, id, agent_id, session_id, event_type, summary, details, outcome, lessons, tags,
  created_at, updated_at, event_id, imported_by)
VALUES (:number, :id, :agent, :session, :event_type, :summary, :details, :outcome, :lessons, :tags, :at, :at,
  :event_id, :imported_by)

-- name: put_memory_event
INSERT INTO memory_events (event_id, number) VALUES (:event_id, :number)

-- name: put_memory_key
INSERT INTO memory_keys (key, number) VALUES (:key, :number)

-- name: memory_of_event
SELECT m.id, m.number FROM memory_events e JOIN memory_episodic m ON m.number = e.number WHERE e.event_id = :event_id

-- name: memory_of_key
SELECT m.id, m.number FROM memory_keys k JOIN memory_episodic m ON m.number = k.number WHERE k.key = :key

-- name: put_memory_words
INSERT INTO memory_episodic_words (number, agent_id, session_id, at, outcome, summary, body, summary_count, body_count)
VALUES (:number, :agent, :session, :at, :outcome, :summary, :body, :summary_count, :body_count)
ON CONFLICT (number) DO UPDATE SET outcome = excluded.outcome, summary = excluded.summary, body = excluded.body,
  summary_count = excluded.summary_count, body_count = excluded.body_count,
  at = CASE WHEN excluded.at < memory_episodic_words.at THEN excluded.at ELSE memory_episodic_words.at END

-- The words that begin so, what most texts have first.
-- name: words_begun
SELECT word FROM memory_word_counts WHERE kind = :kind AND word >= :least AND word < :most AND n > 0
ORDER BY n DESC, word LIMIT :limit

-- name: newest_memories
SELECT * FROM memory_episodic WHERE forgotten_at IS NULL ORDER BY updated_at DESC, number DESC LIMIT :limit

-- name: newest_memories_in_time
SELECT * FROM memory_episodic
WHERE forgotten_at IS NULL AND updated_at >= :since AND created_at >= :since AND created_at < :until
ORDER BY updated_at DESC, number DESC LIMIT :limit

-- Whose they are, of which type and with which tags: the newest.
-- name: memory_choices
SELECT agent_id, event_type, tags FROM memory_episodic WHERE forgotten_at IS NULL
ORDER BY updated_at DESC, number DESC LIMIT :limit

-- name: unindexed_memories
SELECT m.*, m.imported_by IS NOT NULL OR EXISTS (SELECT 1 FROM memory_events e WHERE e.event_id = m.event_id)
  AS is_turn
FROM memory_unindexed u JOIN memory_episodic m ON m.number = u.number ORDER BY u.number LIMIT :limit

-- name: unindex_all
INSERT INTO memory_unindexed (number) SELECT number FROM memory_episodic WHERE true ON CONFLICT (number) DO NOTHING

-- name: indexed_memory
DELETE FROM memory_unindexed WHERE number = :number

-- name: join_memory
UPDATE memory_episodic SET details = :details, outcome = :outcome, lessons = :lessons, tags = :tags,
  merged = merged + 1, created_at = CASE WHEN :at < created_at THEN :at ELSE created_at END,
  updated_at = CASE WHEN :at > updated_at THEN :at ELSE updated_at END
WHERE number = :number

-- name: memory_of_id
SELECT * FROM memory_episodic WHERE id = :id

-- name: memory_of_number
SELECT * FROM memory_episodic WHERE number = :number

-- name: forget_words
DELETE FROM memory_episodic_words WHERE number = :number

-- name: forget_memory
UPDATE memory_episodic SET forgotten_at = :now, forgotten_by = :by WHERE number = :number

-- name: put_feedback
INSERT INTO memory_feedback (number, agent_id, useful, note, at) VALUES (:number, :agent, :useful, :note, :now)
ON CONFLICT (number, agent_id) DO UPDATE SET useful = excluded.useful, note = excluded.note, at = excluded.at

-- name: count_feedback
UPDATE memory_episodic_words SET
  useful = (SELECT COUNT(*) FROM memory_feedback f WHERE f.number = :number AND f.useful = 1),
  useless = (SELECT COUNT(*) FROM memory_feedback f WHERE f.number = :number AND f.useful = 0)
WHERE number = :number

-- name: feedback_of
SELECT m.id, m.number, COUNT(CASE WHEN f.useful = 1 THEN 1 END) AS useful,
  COUNT(CASE WHEN f.useful = 0 THEN 1 END) AS useless
FROM memory_episodic m LEFT JOIN memory_feedback f ON f.number = m.number WHERE m.number = :number
GROUP BY m.id, m.number

-- The last word of each caller.
-- name: feedback_on_one
SELECT agent_id, useful, note, at FROM memory_feedback WHERE number = :number ORDER BY at, agent_id
