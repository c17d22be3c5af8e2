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
SELECT * FROM events WHERE pos > :after AND pos <= :upto AND type IN (SELECT value FROM json_each(:types)) ORDER BY pos LIMIT :limit

-- name: events_about
SELECT * FROM events WHERE pos > :after AND type IN (SELECT value FROM json_each(:types))
  AND instr(outputs, :text) > 0 ORDER BY pos DESC LIMIT :limit

-- name: newest_of_agents
SELECT * FROM events WHERE pos IN (
  SELECT max(pos) FROM events WHERE pos > :after AND type = :type
  AND outputs->>'agent' IN (SELECT value FROM json_each(:agents))
  AND outputs->>'change' IN (SELECT value FROM json_each(:changes)) GROUP BY outputs->>'agent')

-- name: follower_failed
INSERT INTO followers (name, pos, failing_event, failures) VALUES (:name, :pos, :event_id, 1)
ON CONFLICT (name) DO UPDATE SET
  failures = CASE WHEN failing_event = :event_id THEN failures + 1 ELSE 1 END, failing_event = :event_id
RETURNING failures

-- name: next_number
INSERT INTO counters (name, value) VALUES (:name, :count) ON CONFLICT (name) DO UPDATE SET value = value + :count
RETURNING value

-- name: imported_notes
SELECT pos, origin, inputs, outputs FROM imported_events WHERE pos IN (SELECT value FROM json_each(:positions))

-- name: events_known
SELECT e.id, e.pos, e.session, e.lane, e.seq, e.parents, l.short, l.depth, n.origin FROM events e
JOIN lanes l ON l.session = e.session AND l.lane = e.lane LEFT JOIN imported_events n ON n.pos = e.pos
WHERE e.id IN (SELECT value FROM json_each(:ids))

-- name: stubs_known
SELECT id, session, lane, seq, parents FROM event_stubs WHERE id IN (SELECT value FROM json_each(:ids))

-- name: places_of
SELECT id, pos FROM events WHERE id IN (SELECT value FROM json_each(:ids))

-- name: lanes_before
-- Where lanes stood before these of their numbers, among the places from behind `cut` to before `first`.
SELECT e.session, e.lane, e.seq, e.id FROM json_each(:lanes) k JOIN events e ON e.pos = (
  SELECT b.pos FROM events b WHERE b.session = k.value->>0 AND b.lane = k.value->>1 AND b.seq < k.value->>2
    AND b.pos > :cut AND b.pos < :first ORDER BY b.seq DESC LIMIT 1)

-- name: lanes_owned
SELECT l.session, l.lane, l.seq, l.head, l.clock, l.depth, n.origin FROM json_each(:keys) k
JOIN lanes l ON l.session = substr(k.value, 1, instr(k.value, '/') - 1)
  AND l.lane = substr(k.value, instr(k.value, '/') + 1)
LEFT JOIN events e ON e.id = l.head LEFT JOIN imported_events n ON n.pos = e.pos

-- name: put_events
INSERT INTO events (id, v, session, lane, seq, type, prev, parents, causal_deps, clock, role, branch, snapshot,
  file_touches, inputs, outputs, source_key, at)
SELECT value->>'id', value->>'v', value->>'session', value->>'lane', value->>'seq', value->>'type', value->>'prev',
  value->>'parents', value->>'causal_deps', value->>'clock', value->>'role', value->>'branch', value->>'snapshot',
  value->>'file_touches', value->>'inputs', value->>'outputs', value->>'source_key', value->>'at'
FROM json_each(:rows) ORDER BY key

-- name: put_imported
INSERT INTO imported_events (pos, origin, inputs, outputs)
SELECT e.pos, value->>'origin', value->>'inputs', value->>'outputs' FROM json_each(:notes) JOIN events e ON e.id = value->>'id'

-- name: put_stubs
INSERT INTO event_stubs (id, session, lane, seq, parents)
SELECT value->>'id', value->>'session', value->>'lane', value->>'seq', value->>'parents' FROM json_each(:stubs) WHERE true
ON CONFLICT DO NOTHING

-- name: put_exits
INSERT INTO lane_exits (lane, seq, into_lane, at)
SELECT value->>'lane', value->>'seq', value->>'into_lane', value->>'at' FROM json_each(:exits) WHERE true
ON CONFLICT DO NOTHING
