-- Each tree that the log knows of a worktree, not only the last: how its files stood at any moment. What the log said
-- before is put there.
CREATE TABLE trees_of_worktrees (
  worktree TEXT NOT NULL,
  tree TEXT NOT NULL,
  at_commit TEXT,
  pos INTEGER NOT NULL,
  PRIMARY KEY (worktree, pos)
) WITHOUT ROWID;
INSERT INTO trees_of_worktrees (worktree, tree, at_commit, pos)
SELECT outputs->>'worktree', snapshot, outputs->>'commit', pos FROM events
WHERE type IN ('files.changed', 'files.read') AND snapshot IS NOT NULL AND outputs->>'worktree' IS NOT NULL;
DROP TABLE worktree_trees;
ALTER TABLE trees_of_worktrees RENAME TO worktree_trees;
CREATE INDEX worktree_trees_by_tree ON worktree_trees (tree, pos);
