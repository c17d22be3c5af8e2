-- name: applied_migrations
SELECT wing, version, name, sha256 FROM schema_migrations ORDER BY wing, version

-- name: outbox_age
SELECT COUNT(*) AS waiting, MIN(m.at) AS oldest FROM outbox o LEFT JOIN messages m ON m.id = o.message_id

-- name: open_work
SELECT 'a turn is not done' AS what, m.pos FROM dispatch_queue q JOIN messages m ON m.id = q.message_id
WHERE q.state IN ('pending', 'failed', 'active') AND m.pos <= :upto
UNION ALL SELECT 'a message is not in the transcript yet', m.pos FROM outbox o JOIN messages m ON m.id = o.message_id WHERE m.pos <= :upto
