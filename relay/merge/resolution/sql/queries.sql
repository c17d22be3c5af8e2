-- name: put_conflict
INSERT INTO merge_conflicts (number, id, path, entity, kind, severity, base, ours, theirs, agent, into_name, ours_at, theirs_at,
  about, state, text, resolution, event, at)
VALUES (:number, :id, :path, :entity, :kind, :severity, :base, :ours, :theirs, :agent, :into_name, :ours_at, :theirs_at, :about,
  :state, :text, :resolution, :event, :at)
ON CONFLICT (number) DO UPDATE SET ours = excluded.ours, theirs = excluded.theirs, agent = excluded.agent,
  into_name = excluded.into_name, ours_at = excluded.ours_at, theirs_at = excluded.theirs_at, about = excluded.about,
  state = excluded.state, text = excluded.text, resolution = excluded.resolution, event = excluded.event, at = excluded.at

-- name: conflict
SELECT * FROM merge_conflicts WHERE number = :number

-- name: newest_conflicts
SELECT * FROM merge_conflicts ORDER BY number DESC LIMIT :limit

-- name: open_conflicts
SELECT * FROM merge_conflicts WHERE state = 'open' ORDER BY number DESC LIMIT :limit

-- name: last_choice
SELECT pos FROM events WHERE type = :type ORDER BY pos DESC LIMIT 1

-- name: put_finding
INSERT INTO merge_findings (number, id, level, kind, severity, path, entity, a, b, side_a, side_b, base, evidence, state, event, at)
VALUES (:number, :id, :level, :kind, :severity, :path, :entity, :a, :b, :side_a, :side_b, :base, :evidence, :state, :event, :at)
ON CONFLICT (number) DO UPDATE SET severity = excluded.severity, side_a = excluded.side_a, side_b = excluded.side_b,
  base = excluded.base, evidence = excluded.evidence, state = excluded.state, event = excluded.event, at = excluded.at

-- name: finding
SELECT * FROM merge_findings WHERE number = :number

-- name: newest_findings
SELECT * FROM merge_findings ORDER BY number DESC LIMIT :limit

-- name: open_findings
SELECT * FROM merge_findings WHERE state = 'open' ORDER BY number DESC LIMIT :limit
