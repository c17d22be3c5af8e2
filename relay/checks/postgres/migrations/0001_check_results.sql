-- How each check (a command in an export of a git tree) ended: the same is not run twice (003, section 4.4; the issue,
-- "Handoffs"). `digest`: SHA-256 of the command and how its report is read; `attempt`: from 1. `state`: passed, failed,
-- timed_out or not_run. `head`, `tail`: the first and the last 20 kB of `output_bytes`. `metrics`: JSON, name -> number.
CREATE TABLE check_results (
  tree TEXT COLLATE "C" NOT NULL,
  digest TEXT COLLATE "C" NOT NULL,
  attempt BIGINT NOT NULL,
  name TEXT COLLATE "C" NOT NULL,
  state TEXT COLLATE "C" NOT NULL,
  exit_code BIGINT,
  seconds DOUBLE PRECISION NOT NULL,
  head TEXT COLLATE "C" NOT NULL,
  tail TEXT COLLATE "C" NOT NULL,
  output_bytes BIGINT NOT NULL,
  metrics TEXT COLLATE "C" NOT NULL,
  reason TEXT COLLATE "C" NOT NULL,
  at DOUBLE PRECISION NOT NULL,
  PRIMARY KEY (tree, digest, attempt)
);
CREATE INDEX check_results_passed ON check_results (name, at) WHERE state = 'passed';
