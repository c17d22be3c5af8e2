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
SELECT * FROM events WHERE pos > :after AND pos <= :upto AND type = ANY (ARRAY(SELECT json_array_elements_text(:types::json))) ORDER BY pos LIMIT :limit

-- name: events_about
SELECT * FROM events WHERE pos > :after AND type = ANY (ARRAY(SELECT json_array_elements_text(:types::json)))
  AND position(:text::text IN outputs) > 0 ORDER BY pos DESC LIMIT :limit

-- name: newest_of_agents
SELECT * FROM events WHERE pos IN (
  SELECT max(pos) FROM events WHERE pos > :after AND type = :type
  AND outputs::json->>'agent' = ANY (ARRAY(SELECT json_array_elements_text(:agents::json)))
  AND outputs::json->>'change' = ANY (ARRAY(SELECT json_array_elements_text(:changes::json))) GROUP BY outputs::json->>'agent')

-- name: follower_failed
INSERT INTO followers (name, pos, failing_event, failures) VALUES (:name, :pos, :event_id, 1)
ON CONFLICT (name) DO UPDATE SET
  failures = CASE WHEN followers.failing_event = :event_id THEN followers.failures + 1 ELSE 1 END, failing_event = :event_id
RETURNING failures

-- name: next_number
SELECT max(relay_next_number(:name)) AS value FROM generate_series(1, :count::int)

-- name: imported_notes
SELECT pos, origin, inputs, outputs FROM imported_events
WHERE pos = ANY (ARRAY(SELECT CAST(json_array_elements_text(:positions::json) AS bigint)))

-- name: events_known
SELECT e.id, e.pos, e.session, e.lane, e.seq, e.parents, l.short, l.depth, n.origin FROM events e
JOIN lanes l ON l.session = e.session AND l.lane = e.lane LEFT JOIN imported_events n ON n.pos = e.pos
WHERE e.id = ANY (ARRAY(SELECT json_array_elements_text(:ids::json)))

-- name: stubs_known
SELECT id, session, lane, seq, parents FROM event_stubs WHERE id = ANY (ARRAY(SELECT json_array_elements_text(:ids::json)))

-- name: places_of
SELECT id, pos FROM events WHERE id = ANY (ARRAY(SELECT json_array_elements_text(:ids::json)))

-- name: lanes_before
-- Where lanes stood before these of their numbers, among the places from behind `cut` to before `first`.
SELECT e.session, e.lane, e.seq, e.id FROM json_array_elements(:lanes::json) AS k (value) CROSS JOIN LATERAL (
  SELECT b.session, b.lane, b.seq, b.id FROM events b WHERE b.session = k.value->>0 AND b.lane = k.value->>1
    AND b.seq < (k.value->>2)::integer AND b.pos > :cut AND b.pos < :first ORDER BY b.seq DESC LIMIT 1) e

-- name: lanes_owned
SELECT l.session, l.lane, l.seq, l.head, l.clock, l.depth, n.origin FROM json_array_elements_text(:keys::json) AS k (value)
JOIN lanes l ON l.session = split_part(k.value, '/', 1) AND l.lane = substr(k.value, strpos(k.value, '/') + 1)
LEFT JOIN events e ON e.id = l.head LEFT JOIN imported_events n ON n.pos = e.pos

-- name: put_events
INSERT INTO events (id, v, session, lane, seq, type, prev, parents, causal_deps, clock, role, branch, snapshot,
  file_touches, inputs, outputs, source_key, at)
SELECT r->>'id', CAST(r->>'v' AS integer), r->>'session', r->>'lane', CAST(r->>'seq' AS bigint), r->>'type', r->>'prev',
  r->>'parents', r->>'causal_deps', r->>'clock', r->>'role', r->>'branch', r->>'snapshot',
  r->>'file_touches', r->>'inputs', r->>'outputs', r->>'source_key', r->>'at'
FROM json_array_elements(:rows::json) WITH ORDINALITY AS x (r, place) ORDER BY place

-- name: put_imported
INSERT INTO imported_events (pos, origin, inputs, outputs)
SELECT e.pos, r->>'origin', r->>'inputs', r->>'outputs'
FROM json_array_elements(:notes::json) AS x (r) JOIN events e ON e.id = r->>'id'

-- name: put_stubs
INSERT INTO event_stubs (id, session, lane, seq, parents)
SELECT r->>'id', r->>'session', r->>'lane', CAST(r->>'seq' AS bigint), r->>'parents'
FROM json_array_elements(:stubs::json) AS x (r)
ON CONFLICT DO NOTHING

-- name: put_exits
INSERT INTO lane_exits (lane, seq, into_lane, at)
SELECT r->>'lane', CAST(r->>'seq' AS bigint), r->>'into_lane', CAST(r->>'at' AS bigint)
FROM json_array_elements(:exits::json) AS x (r)
ON CONFLICT DO NOTHING
