-- name: applied_migrations
SELECT wing, version, name, sha256 FROM schema_migrations ORDER BY wing, version

-- name: open_work
SELECT 'a turn is not done' AS what, m.pos FROM dispatch_queue q JOIN messages m ON m.id = q.message_id
WHERE q.state IN ('pending', 'failed', 'active') AND m.pos <= :upto
UNION ALL SELECT 'a message is not in the transcript yet', m.pos FROM messages m
WHERE m.number > (SELECT COALESCE(MAX(t.upto), 0) FROM tail t WHERE t.member = :member) AND m.pos <= :upto

-- Memories that are told, those that wait to be indexed, and those that no question finds.
-- name: memory_index
SELECT COUNT(*) AS memories, COUNT(u.number) AS waiting,
  COUNT(CASE WHEN w.number IS NULL AND u.number IS NULL THEN 1 END) AS missing
FROM memory_episodic m LEFT JOIN memory_episodic_words w ON w.number = m.number
LEFT JOIN memory_unindexed u ON u.number = m.number WHERE m.forgotten_at IS NULL
