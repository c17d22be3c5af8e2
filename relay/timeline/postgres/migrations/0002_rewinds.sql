-- What was taken back, brought back and taken back again: `timeline.rewound`, `undone` and `redone`, a row each. All but
-- `state` is what the event says; begun: its files may be half written, and the next start settles it; done; undone;
-- given_up: nothing was changed. `rewind`: the place in the log of the rewind that it is about, its own for a rewind.
-- `target`: worktree, main or branch; `place`: the folder of the checkout, or the branch's ref; `base`: the commit that its
-- commit stands on. `before`, `after`: trees. `removed`: the ids of the events that it took out (JSON).
CREATE TABLE rewinds (
  pos BIGINT PRIMARY KEY,
  event TEXT COLLATE "C" NOT NULL,
  kind TEXT COLLATE "C" NOT NULL,
  rewind BIGINT NOT NULL,
  lane TEXT COLLATE "C" NOT NULL,
  target TEXT COLLATE "C" NOT NULL,
  place TEXT COLLATE "C" NOT NULL,
  base TEXT COLLATE "C",
  before TEXT COLLATE "C" NOT NULL,
  after TEXT COLLATE "C" NOT NULL,
  removed TEXT COLLATE "C" NOT NULL,
  state TEXT COLLATE "C" NOT NULL,
  author TEXT COLLATE "C" NOT NULL
);
CREATE INDEX rewinds_begun ON rewinds (pos) WHERE state = 'begun';
