-- name: events_by_ids
SELECT id, session, lane, seq FROM events WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:ids AS jsonb))))
