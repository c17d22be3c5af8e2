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

-- name: events_after
SELECT * FROM events WHERE pos > :after ORDER BY pos LIMIT :limit

-- name: last_pos
SELECT COALESCE(MAX(pos), 0) AS pos FROM events

-- name: follower
SELECT * FROM followers WHERE name = :name

-- name: put_follower
INSERT INTO followers (name, pos) VALUES (:name, :pos)
ON CONFLICT (name) DO UPDATE SET pos = excluded.pos, failing_event = NULL, failures = 0

-- name: move_follower
INSERT INTO followers (name, pos) SELECT :name, :pos
WHERE :before = 0 OR EXISTS (SELECT 1 FROM followers WHERE name = :name)
ON CONFLICT (name) DO UPDATE SET pos = excluded.pos, failing_event = NULL, failures = 0 WHERE followers.pos = :before

-- name: drop_follower
DELETE FROM followers WHERE name = :name

-- name: park_event
INSERT INTO parked_events (follower, event_id, error, at) VALUES (:follower, :event_id, :error, :at)
ON CONFLICT (follower, event_id) DO UPDATE SET error = excluded.error, at = excluded.at

-- name: parked
SELECT * FROM parked_events ORDER BY at

-- name: setting
SELECT value FROM settings WHERE name = :name

-- name: put_setting
INSERT INTO settings (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = excluded.value

-- name: events_of_lane
SELECT * FROM events WHERE session = :session AND lane = :lane AND type = :type ORDER BY seq DESC LIMIT :limit
