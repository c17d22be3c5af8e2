-- name: clear_touches
DELETE FROM touches

-- name: clear_trees
DELETE FROM worktree_trees

-- name: put_tree
INSERT INTO worktree_trees (worktree, tree, at_commit, pos) VALUES (:worktree, :tree, :commit, :pos)
ON CONFLICT (worktree) DO UPDATE SET tree = excluded.tree, at_commit = excluded.at_commit, pos = excluded.pos

-- name: last_tree
SELECT w.tree, w.at_commit, e.id FROM worktree_trees w JOIN events e ON e.pos = w.pos WHERE w.worktree = :worktree
