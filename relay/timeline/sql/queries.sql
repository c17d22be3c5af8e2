-- name: clear_touches
DELETE FROM touches

-- name: clear_trees
DELETE FROM worktree_trees

-- name: put_tree
INSERT INTO worktree_trees (worktree, tree, at_commit, pos) VALUES (:worktree, :tree, :commit, :pos)
ON CONFLICT (worktree) DO UPDATE SET tree = excluded.tree, at_commit = excluded.at_commit, pos = excluded.pos

-- name: last_tree
SELECT w.tree, w.at_commit, e.id FROM worktree_trees w JOIN events e ON e.pos = w.pos WHERE w.worktree = :worktree

-- name: event_at
SELECT pos, id FROM events WHERE pos = :pos

-- name: event_until
-- What was imported stands where it came in, not in the order of time.
SELECT pos, id, at FROM events WHERE pos <= :pos AND pos > :low AND NOT (type >= 'imported:' AND type < 'imported;')
ORDER BY pos DESC LIMIT 1

-- name: events_from_id
SELECT pos, id, type, lane FROM events WHERE id >= :id AND id < :behind ORDER BY id LIMIT :limit

-- name: lanes_named
SELECT session, lane FROM lanes WHERE short = 0 AND lane IN (:name, :person, :inner) ORDER BY session, lane

-- name: lane_names
SELECT DISTINCT lane FROM lanes WHERE short = 0 ORDER BY lane LIMIT 50

-- name: place_of_seq
SELECT pos FROM events WHERE session = :session AND lane = :lane AND seq = :seq
