-- Each tree that the log knows of a worktree, not only the last: how its files stood at any moment. What the log said
-- before is put there.
ALTER TABLE worktree_trees DROP CONSTRAINT worktree_trees_pkey, ADD PRIMARY KEY (worktree, pos);
INSERT INTO worktree_trees (worktree, tree, at_commit, pos)
SELECT CAST(outputs AS jsonb)->>'worktree', snapshot, CAST(outputs AS jsonb)->>'commit', pos FROM events
WHERE type IN ('files.changed', 'files.read') AND snapshot IS NOT NULL AND CAST(outputs AS jsonb)->>'worktree' IS NOT NULL
ON CONFLICT DO NOTHING;
CREATE INDEX worktree_trees_by_tree ON worktree_trees (tree, pos);
