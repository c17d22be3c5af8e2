-- name: put_checkpoint
INSERT INTO checkpoints (pos, name, event, lane, at, tree, at_commit, kind, metadata)
VALUES (:pos, :name, :event, :lane, :at, :tree, :at_commit, :kind, :metadata)

-- name: checkpoint_named
SELECT * FROM checkpoints WHERE name = :name ORDER BY pos DESC LIMIT 1 OFFSET :back

-- name: checkpoint_names
SELECT name FROM checkpoints GROUP BY name ORDER BY MAX(pos) DESC LIMIT :limit

-- name: checkpoint_at
SELECT * FROM checkpoints WHERE pos = :pos

-- name: newest_checkpoints
SELECT * FROM checkpoints ORDER BY pos DESC LIMIT :limit

-- name: checkpoint_trees
SELECT DISTINCT tree FROM checkpoints

-- name: clear_checkpoints
DELETE FROM checkpoints
