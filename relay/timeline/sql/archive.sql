-- name: count_events
SELECT COUNT(*) AS n FROM events WHERE pos > :after AND pos <= :upto

-- name: events_between
SELECT * FROM events WHERE pos > :after AND pos <= :upto ORDER BY pos LIMIT :limit

-- name: short_lanes_among
SELECT DISTINCT e.session, e.lane FROM (SELECT session, lane FROM events WHERE pos > :after AND pos <= :upto ORDER BY pos LIMIT :limit) e
JOIN lanes l ON l.session = e.session AND l.lane = e.lane AND l.short = 1

-- name: needed_events
-- The first place in the log that somebody still needs.
SELECT 'what follows the log as ' || name || ' has not come so far' AS what, pos + 1 AS pos FROM followers WHERE pos < :upto
UNION ALL SELECT 'an event is set aside for ' || p.follower, e.pos FROM parked_events p JOIN events e ON e.id = p.event_id WHERE e.pos <= :upto
UNION ALL SELECT 'a rewind is not finished', pos FROM rewinds WHERE state = 'begun' AND pos <= :upto

-- name: sent_settings
SELECT name, value FROM settings WHERE name >= 'timeline.sent:' AND name < 'timeline.sent;'
