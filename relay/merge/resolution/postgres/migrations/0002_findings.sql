-- Conflicts of levels 3 and 4 (003, section 6.1) between two agents' work, found while both work: a row each, by its number in the room,
-- of the same count as `merge_conflicts`. `id`: of the conflict's value when it was found. `a`, `b`: the two agents; `side_a`, `side_b`,
-- `evidence`: as docs/conflicts.md has them (JSON). `path`, `entity`: what is changed, '' = the whole tree. `state`: open, resolved.
-- `event`: of its finding, or of its end.
CREATE TABLE merge_findings (
  number BIGINT PRIMARY KEY,
  id TEXT COLLATE "C" NOT NULL,
  level INTEGER NOT NULL,
  kind TEXT COLLATE "C" NOT NULL,
  severity TEXT COLLATE "C" NOT NULL,
  path TEXT COLLATE "C" NOT NULL,
  entity TEXT COLLATE "C" NOT NULL,
  a TEXT COLLATE "C" NOT NULL,
  b TEXT COLLATE "C" NOT NULL,
  side_a TEXT COLLATE "C" NOT NULL,
  side_b TEXT COLLATE "C" NOT NULL,
  base TEXT COLLATE "C",
  evidence TEXT COLLATE "C" NOT NULL,
  state TEXT COLLATE "C" NOT NULL,
  event TEXT COLLATE "C" NOT NULL,
  at TEXT COLLATE "C" NOT NULL
);
CREATE INDEX merge_findings_open ON merge_findings (number) WHERE state = 'open';
