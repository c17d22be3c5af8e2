-- How each check (a command in an export of a git tree) ended: the same is not run twice (003, section 4.4; the issue,
-- "Handoffs"). `digest`: SHA-256 of the command and how its report is read; `attempt`: from 1. `state`: passed, failed,
-- timed_out or not_run. `head`, `tail`: the first and the last 20 kB of `output_bytes`. `metrics`: JSON, name -> number.
CREATE TABLE check_results (
  tree TEXT NOT NULL,
  digest TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  name TEXT NOT NULL,
  state TEXT NOT NULL,
  exit_code INTEGER,
  seconds REAL NOT NULL,
  head TEXT NOT NULL,
  tail TEXT NOT NULL,
  output_bytes INTEGER NOT NULL,
  metrics TEXT NOT NULL,
  reason TEXT NOT NULL,
  at REAL NOT NULL,
  PRIMARY KEY (tree, digest, attempt)
);
CREATE INDEX check_results_passed ON check_results (name, at) WHERE state = 'passed';
