-- name: all_touches
SELECT * FROM touches ORDER BY path, pos

-- name: all_rewinds
SELECT * FROM rewinds ORDER BY pos

-- name: forge_digest
UPDATE events SET outputs = replace(outputs, :old, :new) WHERE type = :type

-- name: drop_event
DELETE FROM events WHERE pos = :pos

-- name: all_trees
SELECT * FROM worktree_trees ORDER BY worktree, pos
