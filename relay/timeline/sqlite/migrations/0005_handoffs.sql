-- Work that is handed on (003, section 4): a row each, by its number in the room. `state`: working (its source is at work),
-- checking, retrying, passed (its receiver's worktree is being set), asked (people are), finishing (the last role of a
-- pipeline is at work), done, ended. `began`: the place in the log behind which the outgoing role worked; `base`, `tree`: git trees
-- before and after its work, `at_commit` holds the second. `event`: of the last check. `message`: whose job is waited for.
-- `branch`: where it is tried again; `written`: [checkout's tree, tree that it becomes] while files are written (JSON).
-- `rest`: the roles that follow (JSON), NULL outside of a pipeline. `asker`: the person who ordered it.
CREATE TABLE handoffs (
  number INTEGER PRIMARY KEY,
  state TEXT NOT NULL,
  source TEXT NOT NULL,
  source_role TEXT NOT NULL,
  target TEXT NOT NULL,
  target_role TEXT NOT NULL,
  text TEXT NOT NULL,
  asker TEXT NOT NULL,
  cause TEXT,
  rest TEXT,
  attempt INTEGER NOT NULL,
  allowed INTEGER NOT NULL,
  began INTEGER NOT NULL,
  base TEXT,
  tree TEXT,
  at_commit TEXT,
  event TEXT,
  message TEXT,
  branch TEXT,
  written TEXT
);
CREATE INDEX handoffs_open ON handoffs (number) WHERE state NOT IN ('done', 'ended');
