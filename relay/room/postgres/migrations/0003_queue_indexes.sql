-- SQLite takes a partial index only where the statement repeats the index's own condition; `dispatch_open` had
-- a condition that no statement of the hot path has.
DROP INDEX dispatch_open;
-- What an agent has before it, in order: claim, next_due, open_jobs_of_agent.
CREATE INDEX dispatch_waiting ON dispatch_queue (agent, id) WHERE state IN ('pending', 'failed');
-- What was given up, the latest first: last_skips.
CREATE INDEX dispatch_given_up ON dispatch_queue (ended_at) WHERE state IN ('skipped', 'dead');
-- Every question that begins with a state: active_jobs, renew, open_counts, jobs_in_state, state_counts.
CREATE INDEX dispatch_by_state ON dispatch_queue (state, id);
