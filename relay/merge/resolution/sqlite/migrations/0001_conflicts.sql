-- Places in which two sides changed the same, found when a branch was to be merged (003, sections 6.2 to 6.5): a row each, by its
-- number in the room. `id`: a hash of file and texts (`ConflictPart.id`). `agent`: whose branch was merged, its work at the commit
-- `theirs_at`, into `into_name` at `ours_at`. `ours`, `base`, `theirs`: the lines; `about`: who is behind each side and what they
-- said (JSON). `state`: open; resolved: `text` is to stand there; rejected: nothing of it is merged; gone: the sides moved on.
-- `resolution`: 003, `ConflictResolution` (JSON). `event`: of its finding.
CREATE TABLE merge_conflicts (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  path TEXT NOT NULL,
  entity TEXT NOT NULL,
  kind TEXT NOT NULL,
  severity TEXT NOT NULL,
  base TEXT NOT NULL,
  ours TEXT NOT NULL,
  theirs TEXT NOT NULL,
  agent TEXT NOT NULL,
  into_name TEXT NOT NULL,
  ours_at TEXT NOT NULL,
  theirs_at TEXT NOT NULL,
  about TEXT NOT NULL,
  state TEXT NOT NULL,
  text TEXT,
  resolution TEXT,
  event TEXT NOT NULL,
  at TEXT NOT NULL
);
CREATE INDEX merge_conflicts_open ON merge_conflicts (number) WHERE state = 'open';
