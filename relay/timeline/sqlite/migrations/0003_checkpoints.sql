-- Names that people and the room give to a tree (003, section 4.6): each `checkpoint.made`, a row. A projection of the log,
-- which `relay timeline rebuild` makes anew. A name that is given again has another row, and the newest counts.
-- `lane`: who made it; `tree`: the snapshot; `at_commit`: the commit that keeps it; `metadata`: JSON.
CREATE TABLE checkpoints (
  pos INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  event TEXT NOT NULL,
  lane TEXT NOT NULL,
  at TEXT NOT NULL,
  tree TEXT NOT NULL,
  at_commit TEXT,
  kind TEXT NOT NULL,
  metadata TEXT NOT NULL
);
CREATE INDEX checkpoints_by_name ON checkpoints (name, pos);
CREATE INDEX checkpoints_by_tree ON checkpoints (tree, name);
