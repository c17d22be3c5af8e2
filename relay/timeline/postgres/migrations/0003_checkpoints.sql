-- Names that people and the room give to a tree (003, section 4.6): each `checkpoint.made`, a row. A projection of the log,
-- which `relay timeline rebuild` makes anew. A name that is given again has another row, and the newest counts.
-- `lane`: who made it; `tree`: the snapshot; `at_commit`: the commit that keeps it; `metadata`: JSON.
CREATE TABLE checkpoints (
  pos BIGINT PRIMARY KEY,
  name TEXT COLLATE "C" NOT NULL,
  event TEXT COLLATE "C" NOT NULL,
  lane TEXT COLLATE "C" NOT NULL,
  at TEXT COLLATE "C" NOT NULL,
  tree TEXT COLLATE "C" NOT NULL,
  at_commit TEXT COLLATE "C",
  kind TEXT COLLATE "C" NOT NULL,
  metadata TEXT COLLATE "C" NOT NULL
);
CREATE INDEX checkpoints_by_name ON checkpoints (name, pos);
CREATE INDEX checkpoints_by_tree ON checkpoints (tree, name);
