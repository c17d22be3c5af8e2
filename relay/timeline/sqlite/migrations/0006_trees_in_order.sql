-- The same table with its key's columns in front: SQLite's check of the file takes another order in a table without row
-- ids for damage.
CREATE TABLE trees_of_worktrees (
  worktree TEXT NOT NULL,
  pos INTEGER NOT NULL,
  tree TEXT NOT NULL,
  at_commit TEXT,
  PRIMARY KEY (worktree, pos)
) WITHOUT ROWID;
INSERT INTO trees_of_worktrees (worktree, pos, tree, at_commit) SELECT worktree, pos, tree, at_commit FROM worktree_trees;
DROP TABLE worktree_trees;
ALTER TABLE trees_of_worktrees RENAME TO worktree_trees;
CREATE INDEX worktree_trees_by_tree ON worktree_trees (tree, pos);
