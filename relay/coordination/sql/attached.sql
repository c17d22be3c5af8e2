-- name: attached
SELECT * FROM attached_sessions WHERE program = :program AND id = :id

-- name: attached_here
SELECT * FROM attached_sessions WHERE state <> 'gone' ORDER BY started_at, id

-- name: attached_before
SELECT * FROM attached_sessions WHERE program = :program AND process = :process AND state = 'gone' AND since > :after
ORDER BY since DESC, id LIMIT 1

-- name: put_attached
INSERT INTO attached_sessions (program, id, agent_id, session_id, person, checkout, branch, state, since, started_at, heard_at,
  tool, paths, process)
VALUES (:program, :id, :agent, :session, :person, :checkout, :branch, :state, :since, :started_at, :heard_at, :tool, :paths,
  :process)
ON CONFLICT (program, id) DO UPDATE SET agent_id = excluded.agent_id, session_id = excluded.session_id, person = excluded.person,
  checkout = excluded.checkout, branch = excluded.branch, state = excluded.state, since = excluded.since,
  heard_at = excluded.heard_at, tool = excluded.tool, paths = excluded.paths, process = excluded.process

-- name: attached_gone
SELECT * FROM attached_sessions WHERE state = 'gone' AND since < :before ORDER BY since, id

-- name: attached_names
SELECT DISTINCT agent_id FROM attached_sessions

-- name: forget_attached
DELETE FROM attached_sessions WHERE state = 'gone' AND since < :before
