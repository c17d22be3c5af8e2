-- What each `files.changed` did to each path (003, section 2.2, `file_touches`): a projection of the log, which
-- `relay timeline rebuild` makes anew. `lane`: the writer's, as `session/name`; `before`, `after`: git's blob ids, NULL =
-- not there; `origin`: the old path of a rename; `unseen`: the place in the log of the last write of this path by
-- another lane, where its author had not seen that.
CREATE TABLE touches (
  path TEXT NOT NULL,
  pos INTEGER NOT NULL,
  lane TEXT NOT NULL,
  seq INTEGER NOT NULL,
  before TEXT,
  after TEXT,
  kind TEXT NOT NULL,
  origin TEXT,
  unseen INTEGER,
  PRIMARY KEY (path, pos)
) WITHOUT ROWID;
CREATE INDEX touches_by_lane ON touches (lane, seq);

-- The last tree that the log knows of each worktree: what stands there otherwise was done outside of a turn. The worktree
-- `main` is the main branch; `at_commit` is the commit that it stood at.
CREATE TABLE worktree_trees (
  worktree TEXT NOT NULL PRIMARY KEY,
  tree TEXT NOT NULL,
  at_commit TEXT,
  pos INTEGER NOT NULL
) WITHOUT ROWID;
