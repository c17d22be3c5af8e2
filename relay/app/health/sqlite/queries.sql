-- name: events_by_ids
SELECT id, session, lane, seq FROM events WHERE id IN (SELECT value FROM json_each(:ids))
