-- name: applied_migrations
SELECT wing, version, name, sha256 FROM schema_migrations ORDER BY wing, version

-- name: events_by_ids
SELECT id, session, lane, seq FROM events WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:ids AS jsonb))))

-- name: outbox_age
SELECT COUNT(*) AS waiting, MIN(m.at) AS oldest FROM outbox o LEFT JOIN messages m ON m.id = o.message_id
