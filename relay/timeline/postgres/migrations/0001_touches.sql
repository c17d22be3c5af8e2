-- What each `files.changed` did to each path (003, section 2.2, `file_touches`): a projection of the log, which
-- `relay timeline rebuild` makes anew. `lane`: the writer's, as `session/name`; `before`, `after`: git's blob ids, NULL =
-- not there; `origin`: the old path of a rename; `unseen`: the place in the log of the last write of this path by
-- another lane, where its author had not seen that.
CREATE TABLE touches (
  path TEXT COLLATE "C" NOT NULL,
  pos BIGINT NOT NULL,
  lane TEXT COLLATE "C" NOT NULL,
  seq BIGINT NOT NULL,
  before TEXT COLLATE "C",
  after TEXT COLLATE "C",
  kind TEXT COLLATE "C" NOT NULL,
  origin TEXT COLLATE "C",
  unseen BIGINT,
  PRIMARY KEY (path, pos)
);
CREATE INDEX touches_by_lane ON touches (lane, seq);

-- The last tree that the log knows of each worktree: what stands there otherwise was done outside of a turn. The worktree
-- `main` is the main branch; `at_commit` is the commit that it stood at.
CREATE TABLE worktree_trees (
  worktree TEXT COLLATE "C" PRIMARY KEY,
  tree TEXT COLLATE "C" NOT NULL,
  at_commit TEXT COLLATE "C",
  pos BIGINT NOT NULL
);
