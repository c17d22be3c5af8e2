-- What was taken back, brought back and taken back again: `timeline.rewound`, `undone` and `redone`, a row each. All but
-- `state` is what the event says; begun: its files may be half written, and the next start settles it; done; undone;
-- given_up: nothing was changed. `rewind`: the place in the log of the rewind that it is about, its own for a rewind.
-- `target`: worktree, main or branch; `place`: the folder of the checkout, or the branch's ref; `base`: the commit that its
-- commit stands on. `before`, `after`: trees. `removed`: the ids of the events that it took out (JSON).
CREATE TABLE rewinds (
  pos INTEGER PRIMARY KEY,
  event TEXT NOT NULL,
  kind TEXT NOT NULL,
  rewind INTEGER NOT NULL,
  lane TEXT NOT NULL,
  target TEXT NOT NULL,
  place TEXT NOT NULL,
  base TEXT,
  before TEXT NOT NULL,
  after TEXT NOT NULL,
  removed TEXT NOT NULL,
  state TEXT NOT NULL,
  author TEXT NOT NULL
);
CREATE INDEX rewinds_begun ON rewinds (pos) WHERE state = 'begun';
