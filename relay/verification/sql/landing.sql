-- name: put_entry
INSERT INTO landing_entries (number, agent, branch, at_commit, tree, asker, state, policies, note, held_on, passed_over,
  verification, approval, task, landed_as, reason, output, at, began, ended, squash)
VALUES (:number, :agent, :branch, :at_commit, :tree, :asker, :state, :policies, :note, :held_on, :passed_over, :verification,
  :approval, :task, :landed_as, :reason, :output, :at, :began, :ended, :squash)
ON CONFLICT (number) DO UPDATE SET branch = excluded.branch, at_commit = excluded.at_commit,
  tree = excluded.tree, state = excluded.state, policies = excluded.policies, note = excluded.note,
  held_on = excluded.held_on, passed_over = excluded.passed_over, verification = excluded.verification,
  approval = excluded.approval, landed_as = excluded.landed_as, reason = excluded.reason, output = excluded.output,
  began = excluded.began, ended = excluded.ended, squash = excluded.squash

-- name: entry
SELECT * FROM landing_entries WHERE number = :number

-- name: open_entries
SELECT * FROM landing_entries WHERE state IN ('asked', 'waiting', 'testing') ORDER BY number

-- name: newest_entries
SELECT * FROM landing_entries WHERE state NOT IN ('asked', 'waiting', 'testing') ORDER BY number DESC LIMIT :limit

-- name: newest_entry_of
SELECT * FROM landing_entries WHERE agent = :agent ORDER BY number DESC LIMIT 1
