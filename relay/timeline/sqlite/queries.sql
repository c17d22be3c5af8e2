-- name: put_touches
INSERT INTO touches (path, pos, lane, seq, before, after, kind, origin, unseen)
SELECT value->>'path', :pos, :lane, :seq, value->>'before', value->>'after', value->>'kind', value->>'from',
  (SELECT u.pos FROM json_each(:unseen) x JOIN events u ON u.id = x.value->>'event' WHERE x.value->>'path' = t.value->>'path')
FROM json_each(:touches) t

-- name: last_writes
SELECT t.path, t.lane, t.seq, t.after, e.id, e.clock FROM json_each(:paths) p
JOIN touches t ON t.path = p.value
  AND t.pos = (SELECT o.pos FROM touches o WHERE o.path = p.value AND o.lane <> :lane ORDER BY o.pos DESC LIMIT 1)
JOIN events e ON e.pos = t.pos

-- name: last_writes_on_main
-- People write there, and relay for agents; a person's rewind of a worktree is none of it. `;` is the character behind `:`.
SELECT t.path, t.pos, t.before, t.after, e.id, e.outputs FROM json_each(:places) p
JOIN touches t ON t.path = p.value->>'path' AND t.pos = (SELECT o.pos FROM touches o WHERE o.path = p.value->>'path'
  AND o.pos < p.value->>'pos' AND EXISTS (SELECT 1 FROM events k WHERE k.pos = o.pos AND k.type = 'files.changed')
  AND (o.lane = 'room/main' OR (o.lane >= 'room/human:' AND o.lane < 'room/human;')) ORDER BY o.pos DESC LIMIT 1)
JOIN events e ON e.pos = t.pos

-- name: others_writes
-- Of each path the newest write of this content by another agent, which none of this agent's lanes has had and changed.
SELECT t.path, e.id FROM json_each(:asked) p
JOIN touches t ON t.path = p.value->>'path' AND t.pos = (SELECT o.pos FROM touches o WHERE o.path = p.value->>'path'
  AND o.after IS p.value->>'after' AND (o.lane < 'room/' OR o.lane >= 'room0') AND substr(o.lane, instr(o.lane, '/') + 1) <> :agent
  AND (o.after IS NOT NULL OR NOT EXISTS (SELECT 1 FROM touches l WHERE l.path = o.path AND l.lane = o.lane AND l.pos > o.pos))
  AND EXISTS (SELECT 1 FROM events k WHERE k.pos = o.pos AND k.type = 'files.changed')
  ORDER BY o.pos DESC LIMIT 1)
JOIN events e ON e.pos = t.pos
WHERE NOT EXISTS (SELECT 1 FROM touches m WHERE m.path = t.path AND m.before IS t.after
  AND substr(m.lane, instr(m.lane, '/') + 1) = :agent)

-- name: agent_writes
-- Of each path the newest write of this content by an agent; a deletion only while it is that agent's last. None which
-- the main branch has had and lost since (:open: or its checkout, uncommitted). `0` is the character behind `/`.
SELECT t.path, t.after, e.id FROM json_each(:asked) p
JOIN touches t ON t.path = p.value->>'path' AND t.pos = (SELECT o.pos FROM touches o WHERE o.path = p.value->>'path'
  AND o.after IS p.value->>'after' AND (o.kind = 'mode') = (p.value->>'kind' = 'mode') AND (o.lane < 'room/' OR o.lane >= 'room0')
  AND (o.after IS NOT NULL OR NOT EXISTS (SELECT 1 FROM touches l WHERE l.path = o.path AND l.lane = o.lane AND l.pos > o.pos))
  AND EXISTS (SELECT 1 FROM events k WHERE k.pos = o.pos AND k.type = 'files.changed')
  ORDER BY o.pos DESC LIMIT 1)
JOIN events e ON e.pos = t.pos
WHERE NOT EXISTS (SELECT 1 FROM touches m JOIN events c ON c.pos = m.pos
  WHERE m.path = t.path AND m.pos > t.pos AND m.before IS t.after AND m.after IS NOT m.before
  AND (m.lane = 'room/main' OR (m.lane >= 'room/human:' AND m.lane < 'room/human;'))
  AND c.type = 'files.changed' AND (:open = 1 OR c.outputs->>'worktree' = 'main'))

-- name: newest_of_types
-- Of each type as many as are wanted, by an index. What the room decided about a message (`cycle:`) is no agent's turn.
SELECT x.value AS pos FROM json_each(:types) t, json_each((SELECT json_group_array(pos) FROM (SELECT i.pos FROM events i
  WHERE i.type = t.value AND i.pos > :after AND i.pos < :before AND (i.type NOT IN ('turn.ended', 'imported:turn.ended') OR i.lane NOT LIKE 'cycle:%')
  ORDER BY i.pos DESC LIMIT :limit))) x
ORDER BY x.value DESC LIMIT :limit

-- name: newest_holding
-- Those whose payload has this text somewhere.
SELECT x.value AS pos FROM json_each(:types) t, json_each((SELECT json_group_array(pos) FROM (SELECT i.pos FROM events i
  WHERE i.type = t.value AND i.pos > :after AND i.pos < :before AND i.outputs LIKE :holding
  ORDER BY i.pos DESC LIMIT :limit))) x
ORDER BY x.value DESC LIMIT :limit

-- name: first_of_types
SELECT x.value AS pos FROM json_each(:types) t, json_each((SELECT json_group_array(pos) FROM (SELECT i.pos FROM events i
  WHERE i.type = t.value AND i.pos > :after AND i.pos < :before AND (i.type NOT IN ('turn.ended', 'imported:turn.ended') OR i.lane NOT LIKE 'cycle:%')
  ORDER BY i.pos LIMIT :limit))) x
ORDER BY x.value LIMIT :limit

-- name: newest_of_lanes
SELECT x.value AS pos FROM json_each(:lanes) l, json_each((SELECT json_group_array(pos) FROM (SELECT i.pos FROM events i
  WHERE i.session = substr(l.value, 1, instr(l.value, '/') - 1) AND i.lane = substr(l.value, instr(l.value, '/') + 1)
    AND i.type IN (SELECT value FROM json_each(:types)) AND i.pos > :after AND i.pos < :before
  ORDER BY i.seq DESC LIMIT :limit))) x
ORDER BY x.value DESC LIMIT :limit

-- name: heads_of_lane
SELECT pos, id, type, session, lane, seq, at, role, branch, snapshot, file_touches FROM events
WHERE session = :session AND lane = :lane AND seq <= :upto AND type IN (SELECT value FROM json_each(:types)) AND pos > :after
ORDER BY seq DESC LIMIT :limit

-- name: heads_at
SELECT e.pos, e.id, e.type, e.session, e.lane, e.seq, e.at, e.role, e.branch, e.snapshot, e.file_touches
FROM json_each(:positions) p CROSS JOIN events e ON e.pos = p.value ORDER BY e.pos

-- name: events_at
SELECT e.* FROM json_each(:positions) p CROSS JOIN events e ON e.pos = p.value ORDER BY e.pos

-- name: newest_of_path
SELECT DISTINCT pos FROM touches WHERE (path = :path OR (path >= :inside AND path < :behind)) AND pos > :after AND pos < :before
  AND (:every OR lane IN (SELECT value FROM json_each(:lanes)))
ORDER BY pos DESC LIMIT :limit

-- name: imported_of_path
-- What others wrote is in no table of this room's: of their changes, the newest about these paths.
SELECT e.pos FROM events e WHERE e.type = 'imported:files.changed' AND e.pos > :after AND e.pos < :before
  AND (:every OR e.session || '/' || e.lane IN (SELECT value FROM json_each(:lanes)))
  AND EXISTS (SELECT 1 FROM json_each(e.file_touches) f WHERE f.value = :path OR (f.value >= :inside AND f.value < :behind))
ORDER BY e.pos DESC LIMIT :limit

-- name: first_of_path
SELECT DISTINCT pos FROM touches WHERE (path = :path OR (path >= :inside AND path < :behind)) AND pos > :after AND pos < :before
ORDER BY pos LIMIT :limit

-- name: first_imported_of_path
SELECT e.pos FROM events e WHERE e.type = 'imported:files.changed' AND e.pos > :after AND e.pos < :before
  AND EXISTS (SELECT 1 FROM json_each(e.file_touches) f WHERE f.value = :path OR (f.value >= :inside AND f.value < :behind))
ORDER BY e.pos LIMIT :limit

-- name: workspace
-- Of what relay carried to the main branch, the one that wrote it.
SELECT t.path, t.lane, t.after, e.id, e.at,
  (SELECT json_group_array(DISTINCT c.lane) FROM touches c WHERE c.path = t.path AND (c.lane <> :main OR t.lane = :main)) AS contributors
FROM touches n
JOIN touches t ON t.path = n.path AND t.pos = CASE WHEN n.lane <> :main THEN n.pos ELSE COALESCE(
  (SELECT w.pos FROM touches w WHERE w.path = n.path AND w.lane <> :main AND EXISTS (SELECT 1 FROM events k WHERE k.pos = w.pos AND k.type = 'files.changed') AND w.after IS n.after
   ORDER BY w.pos DESC LIMIT 1), n.pos) END
JOIN events e ON e.pos = t.pos
WHERE (n.path = :path OR (n.path >= :inside AND n.path < :behind))
  AND n.pos = (SELECT l.pos FROM touches l WHERE l.path = n.path ORDER BY l.pos DESC LIMIT 1)
ORDER BY t.path

-- name: timeline_heads
SELECT e.pos, e.at, e.session, e.lane, e.type, e.snapshot, e.file_touches,
  CASE WHEN e.type NOT IN ('turn.started', 'turn.ended', 'imported:turn.started', 'imported:turn.ended') THEN e.outputs END AS outputs,
  CASE WHEN e.type NOT IN ('turn.started', 'turn.ended', 'imported:turn.started', 'imported:turn.ended') THEN (SELECT json_group_array(DISTINCT c.pos) FROM
    (SELECT value FROM json_each(e.parents) UNION ALL SELECT value FROM json_each(e.causal_deps)) d
    CROSS JOIN events c ON c.id = d.value WHERE c.type IN (SELECT value FROM json_each(:types))) END AS causes
FROM json_each(:positions) p CROSS JOIN events e ON e.pos = p.value ORDER BY e.pos

-- name: recorded_commits
SELECT w.at_commit, w.tree, e.id, e.branch, e.outputs->>'source' AS source FROM worktree_trees w JOIN events e ON e.pos = w.pos
WHERE w.worktree = :worktree AND w.at_commit IN (SELECT value FROM json_each(:commits))
ORDER BY w.pos
