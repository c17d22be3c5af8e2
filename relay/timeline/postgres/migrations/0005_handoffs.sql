-- Work that is handed on (003, section 4): a row each, by its number in the room. `state`: working (its source is at work),
-- checking, retrying, passed (its receiver's worktree is being set), asked (people are), finishing (the last role of a
-- pipeline is at work), done, ended. `began`: the place in the log behind which the outgoing role worked; `base`, `tree`: git trees
-- before and after its work, `at_commit` holds the second. `event`: of the last check. `message`: whose job is waited for.
-- `branch`: where it is tried again; `written`: [checkout's tree, tree that it becomes] while files are written (JSON).
-- `rest`: the roles that follow (JSON), NULL outside of a pipeline. `asker`: the person who ordered it.
CREATE TABLE handoffs (
  number BIGINT PRIMARY KEY,
  state TEXT COLLATE "C" NOT NULL,
  source TEXT COLLATE "C" NOT NULL,
  source_role TEXT COLLATE "C" NOT NULL,
  target TEXT COLLATE "C" NOT NULL,
  target_role TEXT COLLATE "C" NOT NULL,
  text TEXT COLLATE "C" NOT NULL,
  asker TEXT COLLATE "C" NOT NULL,
  cause TEXT COLLATE "C",
  rest TEXT COLLATE "C",
  attempt BIGINT NOT NULL,
  allowed BIGINT NOT NULL,
  began BIGINT NOT NULL,
  base TEXT COLLATE "C",
  tree TEXT COLLATE "C",
  at_commit TEXT COLLATE "C",
  event TEXT COLLATE "C",
  message TEXT COLLATE "C",
  branch TEXT COLLATE "C",
  written TEXT COLLATE "C"
);
CREATE INDEX handoffs_open ON handoffs (number) WHERE state NOT IN ('done', 'ended');
