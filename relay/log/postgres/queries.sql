-- name: lane
SELECT * FROM lanes WHERE session = :session AND lane = :lane

-- name: put_lane
INSERT INTO lanes (session, lane, seq, head, clock, short, parent, depth)
VALUES (:session, :lane, :seq, :head, :clock, :short, :parent, :depth)
ON CONFLICT (session, lane) DO UPDATE SET seq = excluded.seq, head = excluded.head, clock = excluded.clock

-- name: fold_lane
UPDATE lanes SET folded = 1 WHERE session = :session AND lane = :lane

-- name: count_child
UPDATE lanes SET open_children = open_children + :change WHERE session = :session AND lane = :lane

-- name: put_exit
INSERT INTO lane_exits (lane, seq, into_lane, at) VALUES (:lane, :seq, :into_lane, :at) ON CONFLICT DO NOTHING

-- name: exits_of
SELECT seq, into_lane, at FROM lane_exits WHERE lane = :lane AND seq >= :seq

-- name: folded_among
SELECT l.session || '/' || l.lane AS key, x.into_lane, x.at FROM json_array_elements_text(:keys::json) AS k (value)
JOIN lanes l ON l.session = split_part(k.value, '/', 1)
  AND l.lane = substr(k.value, strpos(k.value, '/') + 1) AND l.folded = 1
JOIN lane_exits x ON x.lane = k.value AND x.seq = l.seq

-- name: put_event
INSERT INTO events (id, v, session, lane, seq, type, prev, parents, causal_deps, clock, role, branch, snapshot,
  file_touches, inputs, outputs, source_key, at)
VALUES (:id, :v, :session, :lane, :seq, :type, :prev, :parents, :causal_deps, :clock, :role, :branch, :snapshot,
  :file_touches, :inputs, :outputs, :source_key, :at)
RETURNING pos

-- name: record_event
INSERT INTO events (id, v, session, lane, seq, type, prev, parents, causal_deps, clock, role, branch, snapshot,
  file_touches, inputs, outputs, source_key, at)
VALUES (:id, :v, :session, :lane, :seq, :type, :prev, :parents, :causal_deps, :clock, :role, :branch, :snapshot,
  :file_touches, :inputs, :outputs, :source_key, :at)

-- name: event
SELECT * FROM events WHERE id = :id

-- name: event_by_source
SELECT * FROM events WHERE source_key = :source_key

-- name: causes
SELECT e.id, e.session, e.lane, e.seq, e.clock, l.short FROM events e
JOIN lanes l ON l.session = e.session AND l.lane = e.lane
WHERE e.id IN (SELECT json_array_elements_text(:ids::json))

-- name: events_after
SELECT * FROM events WHERE pos > :after ORDER BY pos LIMIT :limit

-- name: events_of_types_after
SELECT * FROM events WHERE pos > :after AND type = ANY (ARRAY(SELECT json_array_elements_text(:types::json))) ORDER BY pos LIMIT :limit

-- name: events_about
SELECT * FROM events WHERE pos > :after AND type = ANY (ARRAY(SELECT json_array_elements_text(:types::json)))
  AND position(:text::text IN outputs) > 0 ORDER BY pos DESC LIMIT :limit

-- name: last_pos
SELECT COALESCE(MAX(pos), 0) AS pos FROM events

-- name: follower
SELECT * FROM followers WHERE name = :name

-- name: put_follower
INSERT INTO followers (name, pos) VALUES (:name, :pos)
ON CONFLICT (name) DO UPDATE SET pos = excluded.pos, failing_event = NULL, failures = 0

-- name: follower_failed
INSERT INTO followers (name, pos, failing_event, failures) VALUES (:name, :pos, :event_id, 1)
ON CONFLICT (name) DO UPDATE SET
  failures = CASE WHEN followers.failing_event = :event_id THEN followers.failures + 1 ELSE 1 END, failing_event = :event_id
RETURNING failures

-- name: park_event
INSERT INTO parked_events (follower, event_id, error, at) VALUES (:follower, :event_id, :error, :at)
ON CONFLICT (follower, event_id) DO UPDATE SET error = excluded.error, at = excluded.at

-- name: parked
SELECT * FROM parked_events ORDER BY at

-- name: next_number
SELECT relay_next_number(:name) AS value

-- name: setting
SELECT value FROM settings WHERE name = :name

-- name: put_setting
INSERT INTO settings (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = excluded.value
