-- name: folded_among
SELECT l.session || '/' || l.lane AS key, x.into_lane, x.at FROM json_each(:keys) k
JOIN lanes l ON l.session = substr(k.value, 1, instr(k.value, '/') - 1)
  AND l.lane = substr(k.value, instr(k.value, '/') + 1) AND l.folded = 1
JOIN lane_exits x ON x.lane = k.value AND x.seq = l.seq

-- name: causes
SELECT e.id, e.session, e.lane, e.seq, e.clock, l.short FROM events e
JOIN lanes l ON l.session = e.session AND l.lane = e.lane
WHERE e.id IN (SELECT value FROM json_each(:ids))

-- name: events_of_types_after
SELECT * FROM events WHERE pos > :after AND type IN (SELECT value FROM json_each(:types)) ORDER BY pos LIMIT :limit

-- name: events_about
SELECT * FROM events WHERE pos > :after AND type IN (SELECT value FROM json_each(:types))
  AND instr(outputs, :text) > 0 ORDER BY pos DESC LIMIT :limit

-- name: follower_failed
INSERT INTO followers (name, pos, failing_event, failures) VALUES (:name, :pos, :event_id, 1)
ON CONFLICT (name) DO UPDATE SET
  failures = CASE WHEN failing_event = :event_id THEN failures + 1 ELSE 1 END, failing_event = :event_id
RETURNING failures

-- name: next_number
INSERT INTO counters (name, value) VALUES (:name, 1) ON CONFLICT (name) DO UPDATE SET value = value + 1
RETURNING value
