-- Conflicts of levels 3 and 4 (003, section 6.1) between two agents' work, found while both work: a row each, by its number in the room,
-- of the same count as `merge_conflicts`. `id`: of the conflict's value when it was found. `a`, `b`: the two agents; `side_a`, `side_b`,
-- `evidence`: as docs/conflicts.md has them (JSON). `path`, `entity`: what is changed, '' = the whole tree. `state`: open, resolved.
-- `event`: of its finding, or of its end.
CREATE TABLE merge_findings (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL,
  level INTEGER NOT NULL,
  kind TEXT NOT NULL,
  severity TEXT NOT NULL,
  path TEXT NOT NULL,
  entity TEXT NOT NULL,
  a TEXT NOT NULL,
  b TEXT NOT NULL,
  side_a TEXT NOT NULL,
  side_b TEXT NOT NULL,
  base TEXT,
  evidence TEXT NOT NULL,
  state TEXT NOT NULL,
  event TEXT NOT NULL,
  at TEXT NOT NULL
);
CREATE INDEX merge_findings_open ON merge_findings (number) WHERE state = 'open';
