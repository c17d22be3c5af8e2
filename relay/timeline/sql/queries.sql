-- name: clear_touches
DELETE FROM touches

-- name: drop_touches
DELETE FROM touches WHERE lane = :lane AND seq = :seq

-- name: clear_trees
DELETE FROM worktree_trees

-- name: put_tree
INSERT INTO worktree_trees (worktree, tree, at_commit, pos) VALUES (:worktree, :tree, :commit, :pos)

-- name: last_tree
SELECT w.tree, w.at_commit, e.id FROM worktree_trees w JOIN events e ON e.pos = w.pos
WHERE w.worktree = :worktree AND w.pos <= :until ORDER BY w.pos DESC LIMIT 1

-- name: first_tree
SELECT pos FROM worktree_trees WHERE worktree = :worktree ORDER BY pos LIMIT 1

-- name: trees_from_id
SELECT tree, MAX(pos) AS pos FROM (
  SELECT tree, pos FROM worktree_trees WHERE tree >= :id AND tree < :behind
  UNION ALL SELECT tree, pos FROM checkpoints WHERE tree >= :id AND tree < :behind) found
GROUP BY tree ORDER BY tree LIMIT :limit

-- name: event_at
SELECT pos, id, snapshot FROM events WHERE pos = :pos

-- name: event_until
-- What was imported stands where it came in, not in the order of time.
SELECT pos, id, at FROM events WHERE pos <= :pos AND pos > :low AND NOT (type >= 'imported:' AND type < 'imported;')
ORDER BY pos DESC LIMIT 1

-- name: events_from_id
SELECT pos, id, type, lane, snapshot FROM events WHERE id >= :id AND id < :behind ORDER BY id LIMIT :limit

-- name: lanes_named
SELECT session, lane FROM lanes WHERE short = 0 AND lane IN (:name, :person, :inner) ORDER BY session, lane

-- name: lane_names
SELECT DISTINCT lane FROM lanes WHERE short = 0 ORDER BY lane LIMIT 50

-- name: place_of_seq
SELECT pos FROM events WHERE session = :session AND lane = :lane AND seq = :seq
