-- name: level
PRAGMA synchronous

-- name: flip_a_payload
UPDATE events SET outputs = replace(outputs, 'hello', 'hellp') WHERE id = :id

-- name: change_a_type
UPDATE events SET type = 'other' WHERE id = :id

-- name: break_a_clock
UPDATE events SET clock = '{' WHERE id = :id

-- name: lose_an_event
DELETE FROM events WHERE id = :id

-- name: set_lanes_back
UPDATE lanes SET seq = 1
