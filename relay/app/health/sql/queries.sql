-- name: applied_migrations
SELECT wing, version, name, sha256 FROM schema_migrations ORDER BY wing, version

-- name: outbox_age
SELECT COUNT(*) AS waiting, MIN(m.at) AS oldest FROM outbox o LEFT JOIN messages m ON m.id = o.message_id
