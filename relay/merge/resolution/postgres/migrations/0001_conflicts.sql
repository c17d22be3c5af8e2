-- Places in which two sides changed the same, found when a branch was to be merged (003, sections 6.2 to 6.5): a row each, by its
-- number in the room. `id`: a hash of file and texts (`ConflictPart.id`). `agent`: whose branch was merged, its work at the commit
-- `theirs_at`, into `into_name` at `ours_at`. `ours`, `base`, `theirs`: the lines; `about`: who is behind each side and what they
-- said (JSON). `state`: open; resolved: `text` is to stand there; rejected: nothing of it is merged; gone: the sides moved on.
-- `resolution`: 003, `ConflictResolution` (JSON). `event`: of its finding.
CREATE TABLE merge_conflicts (
  number BIGINT PRIMARY KEY,
  id TEXT COLLATE "C" NOT NULL UNIQUE,
  path TEXT COLLATE "C" NOT NULL,
  entity TEXT COLLATE "C" NOT NULL,
  kind TEXT COLLATE "C" NOT NULL,
  severity TEXT COLLATE "C" NOT NULL,
  base TEXT COLLATE "C" NOT NULL,
  ours TEXT COLLATE "C" NOT NULL,
  theirs TEXT COLLATE "C" NOT NULL,
  agent TEXT COLLATE "C" NOT NULL,
  into_name TEXT COLLATE "C" NOT NULL,
  ours_at TEXT COLLATE "C" NOT NULL,
  theirs_at TEXT COLLATE "C" NOT NULL,
  about TEXT COLLATE "C" NOT NULL,
  state TEXT COLLATE "C" NOT NULL,
  text TEXT COLLATE "C",
  resolution TEXT COLLATE "C",
  event TEXT COLLATE "C" NOT NULL,
  at TEXT COLLATE "C" NOT NULL
);
CREATE INDEX merge_conflicts_open ON merge_conflicts (number) WHERE state = 'open';
