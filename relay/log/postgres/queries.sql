-- name: folded_among
SELECT l.session || '/' || l.lane AS key, x.into_lane, x.at FROM json_array_elements_text(:keys::json) AS k (value)
JOIN lanes l ON l.session = split_part(k.value, '/', 1)
  AND l.lane = substr(k.value, strpos(k.value, '/') + 1) AND l.folded = 1
JOIN lane_exits x ON x.lane = k.value AND x.seq = l.seq

-- name: causes
SELECT e.id, e.session, e.lane, e.seq, e.clock, l.short FROM events e
JOIN lanes l ON l.session = e.session AND l.lane = e.lane
WHERE e.id IN (SELECT json_array_elements_text(:ids::json))

-- name: events_of_types_after
SELECT * FROM events WHERE pos > :after AND type = ANY (ARRAY(SELECT json_array_elements_text(:types::json))) ORDER BY pos LIMIT :limit

-- name: events_about
SELECT * FROM events WHERE pos > :after AND type = ANY (ARRAY(SELECT json_array_elements_text(:types::json)))
  AND position(:text::text IN outputs) > 0 ORDER BY pos DESC LIMIT :limit

-- name: follower_failed
INSERT INTO followers (name, pos, failing_event, failures) VALUES (:name, :pos, :event_id, 1)
ON CONFLICT (name) DO UPDATE SET
  failures = CASE WHEN followers.failing_event = :event_id THEN followers.failures + 1 ELSE 1 END, failing_event = :event_id
RETURNING failures

-- name: next_number
SELECT relay_next_number(:name) AS value
