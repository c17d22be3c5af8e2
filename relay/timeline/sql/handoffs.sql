-- name: put_handoff
INSERT INTO handoffs (number, state, source, source_role, target, target_role, text, asker, cause, rest, attempt, allowed,
  began, base, tree, at_commit, event, message, branch, written)
VALUES (:number, :state, :source, :source_role, :target, :target_role, :text, :asker, :cause, :rest, :attempt, :allowed,
  :began, :base, :tree, :at_commit, :event, :message, :branch, :written)
ON CONFLICT (number) DO UPDATE SET state = excluded.state, target = excluded.target, attempt = excluded.attempt,
  allowed = excluded.allowed, base = excluded.base, tree = excluded.tree, at_commit = excluded.at_commit,
  event = excluded.event, message = excluded.message, branch = excluded.branch, written = excluded.written,
  rest = excluded.rest, cause = excluded.cause

-- name: handoff
SELECT * FROM handoffs WHERE number = :number

-- name: open_handoffs
SELECT * FROM handoffs WHERE state NOT IN ('done', 'ended') ORDER BY number

-- name: last_handoff_with
SELECT h.tree, h.at_commit, e.pos FROM handoffs h JOIN events e ON e.id = h.event
WHERE h.state IN ('finishing', 'done') AND (h.source = :agent OR h.target = :agent) ORDER BY e.pos DESC LIMIT 1

-- name: lane_work
SELECT COUNT(*) AS events, MIN(e.at) AS first, MAX(e.at) AS last FROM lanes l
JOIN events e ON e.session = l.session AND e.lane = l.lane
WHERE l.short = 0 AND l.lane = :agent AND e.pos > :after
