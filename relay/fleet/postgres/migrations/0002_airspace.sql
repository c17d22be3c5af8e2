-- What each member tells of its own agents' work (docs/fleet.md, "One airspace"): paths, line ranges and commits as JSON.
-- A work that is told anew has a new version, also after it was gone: the time of its writing, in microseconds.
CREATE TABLE fleet_works (
  member TEXT COLLATE "C" NOT NULL REFERENCES fleet_members (name) ON DELETE CASCADE,
  agent TEXT COLLATE "C" NOT NULL,
  version BIGINT NOT NULL,
  work TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (member, agent)
);

-- What the leader saw last, for the pages of the other members: one row.
CREATE TABLE fleet_picture (
  one BOOLEAN PRIMARY KEY DEFAULT true CHECK (one),
  version BIGINT NOT NULL,
  picture TEXT COLLATE "C" NOT NULL
);
INSERT INTO fleet_picture VALUES (true, 0, '{}');
