-- name: put_touches
INSERT INTO touches (path, pos, lane, seq, before, after, kind, origin, unseen)
SELECT t->>'path', :pos, :lane, :seq, t->>'before', t->>'after', t->>'kind', t->>'from',
  (SELECT u.pos FROM jsonb_array_elements(CAST(:unseen AS jsonb)) x JOIN events u ON u.id = x->>'event'
   WHERE x->>'path' = t->>'path')
FROM jsonb_array_elements(CAST(:touches AS jsonb)) t

-- name: last_writes
SELECT t.path, t.lane, t.seq, t.after, e.id, e.clock
FROM jsonb_array_elements_text(CAST(:paths AS jsonb)) p (path)
CROSS JOIN LATERAL (SELECT o.* FROM touches o WHERE o.path = p.path AND o.lane <> :lane ORDER BY o.pos DESC LIMIT 1) t
JOIN events e ON e.pos = t.pos

-- name: last_writes_on_main
-- People write there, and relay for agents; a person's rewind of a worktree is none of it. `;` is the character behind `:`.
SELECT t.path, t.pos, t.before, t.after, e.id, e.outputs
FROM jsonb_array_elements(CAST(:places AS jsonb)) p
CROSS JOIN LATERAL (SELECT o.* FROM touches o WHERE o.path = p->>'path' AND o.pos < CAST(p->>'pos' AS bigint)
  AND EXISTS (SELECT 1 FROM events k WHERE k.pos = o.pos AND k.type = 'files.changed')
  AND (o.lane = 'room/main' OR (o.lane >= 'room/human:' AND o.lane < 'room/human;')) ORDER BY o.pos DESC LIMIT 1) t
JOIN events e ON e.pos = t.pos

-- name: others_writes
-- Of each path the newest write of this content by another agent, which none of this agent's lanes has had and changed.
SELECT t.path, e.id FROM jsonb_array_elements(CAST(:asked AS jsonb)) p
CROSS JOIN LATERAL (SELECT o.* FROM touches o WHERE o.path = p->>'path'
  AND o.after IS NOT DISTINCT FROM p->>'after' AND (o.lane < 'room/' OR o.lane >= 'room0') AND substr(o.lane, strpos(o.lane, '/') + 1) <> :agent
  AND (o.after IS NOT NULL OR NOT EXISTS (SELECT 1 FROM touches l WHERE l.path = o.path AND l.lane = o.lane AND l.pos > o.pos))
  AND EXISTS (SELECT 1 FROM events k WHERE k.pos = o.pos AND k.type = 'files.changed')
  ORDER BY o.pos DESC LIMIT 1) t
JOIN events e ON e.pos = t.pos
WHERE NOT EXISTS (SELECT 1 FROM touches m WHERE m.path = t.path AND m.before IS NOT DISTINCT FROM t.after
  AND substr(m.lane, strpos(m.lane, '/') + 1) = :agent)

-- name: agent_writes
-- Of each path the newest write of this content by an agent; a deletion only while it is that agent's last. None which
-- the main branch has had and lost since (:open: or its checkout, uncommitted). `0` is the character behind `/`.
SELECT t.path, t.after, e.id FROM jsonb_array_elements(CAST(:asked AS jsonb)) p
CROSS JOIN LATERAL (SELECT o.* FROM touches o WHERE o.path = p->>'path'
  AND o.after IS NOT DISTINCT FROM p->>'after' AND (o.kind = 'mode') = (p->>'kind' = 'mode')
  AND (o.lane < 'room/' OR o.lane >= 'room0')
  AND (o.after IS NOT NULL OR NOT EXISTS (SELECT 1 FROM touches l WHERE l.path = o.path AND l.lane = o.lane AND l.pos > o.pos))
  AND EXISTS (SELECT 1 FROM events k WHERE k.pos = o.pos AND k.type = 'files.changed')
  ORDER BY o.pos DESC LIMIT 1) t
JOIN events e ON e.pos = t.pos
WHERE NOT EXISTS (SELECT 1 FROM touches m JOIN events c ON c.pos = m.pos
  WHERE m.path = t.path AND m.pos > t.pos AND m.before IS NOT DISTINCT FROM t.after AND m.after IS DISTINCT FROM m.before
  AND (m.lane = 'room/main' OR (m.lane >= 'room/human:' AND m.lane < 'room/human;'))
  AND c.type = 'files.changed' AND (CAST(:open AS integer) = 1 OR CAST(c.outputs AS jsonb)->>'worktree' = 'main'))

-- name: newest_of_types
SELECT x.pos FROM jsonb_array_elements_text(CAST(:types AS jsonb)) t (type) CROSS JOIN LATERAL (SELECT i.pos FROM events i
  WHERE i.type = t.type AND i.pos > :after AND i.pos < :before AND (i.type NOT IN ('turn.ended', 'imported:turn.ended') OR i.lane NOT LIKE 'cycle:%')
  ORDER BY i.pos DESC LIMIT :limit) x
ORDER BY x.pos DESC LIMIT :limit

-- name: newest_holding
-- Those whose payload has this text somewhere.
SELECT x.pos FROM jsonb_array_elements_text(CAST(:types AS jsonb)) t (type) CROSS JOIN LATERAL (SELECT i.pos FROM events i
  WHERE i.type = t.type AND i.pos > :after AND i.pos < :before AND i.outputs LIKE :holding
  ORDER BY i.pos DESC LIMIT :limit) x
ORDER BY x.pos DESC LIMIT :limit

-- name: first_of_types
SELECT x.pos FROM jsonb_array_elements_text(CAST(:types AS jsonb)) t (type) CROSS JOIN LATERAL (SELECT i.pos FROM events i
  WHERE i.type = t.type AND i.pos > :after AND i.pos < :before AND (i.type NOT IN ('turn.ended', 'imported:turn.ended') OR i.lane NOT LIKE 'cycle:%')
  ORDER BY i.pos LIMIT :limit) x
ORDER BY x.pos LIMIT :limit

-- name: newest_of_lanes
SELECT x.pos FROM jsonb_array_elements_text(CAST(:lanes AS jsonb)) l (key) CROSS JOIN LATERAL (SELECT i.pos FROM events i
  WHERE i.session = split_part(l.key, '/', 1) AND i.lane = substr(l.key, strpos(l.key, '/') + 1)
    AND i.type IN (SELECT jsonb_array_elements_text(CAST(:types AS jsonb))) AND i.pos > :after AND i.pos < :before
  ORDER BY i.seq DESC LIMIT :limit) x
ORDER BY x.pos DESC LIMIT :limit

-- name: heads_of_lane
SELECT pos, id, type, session, lane, seq, at, role, branch, snapshot, file_touches FROM events
WHERE session = :session AND lane = :lane AND seq <= :upto AND type IN (SELECT jsonb_array_elements_text(CAST(:types AS jsonb))) AND pos > :after
ORDER BY seq DESC LIMIT :limit

-- name: heads_at
SELECT e.pos, e.id, e.type, e.session, e.lane, e.seq, e.at, e.role, e.branch, e.snapshot, e.file_touches
FROM jsonb_array_elements_text(CAST(:positions AS jsonb)) p (pos) JOIN events e ON e.pos = CAST(p.pos AS bigint) ORDER BY e.pos

-- name: events_at
SELECT e.* FROM jsonb_array_elements_text(CAST(:positions AS jsonb)) p (pos) JOIN events e ON e.pos = CAST(p.pos AS bigint) ORDER BY e.pos

-- name: newest_of_path
SELECT DISTINCT pos FROM touches WHERE (path = :path OR (path >= :inside AND path < :behind)) AND pos > :after AND pos < :before
  AND (CAST(:every AS integer) = 1 OR lane IN (SELECT jsonb_array_elements_text(CAST(:lanes AS jsonb))))
ORDER BY pos DESC LIMIT :limit

-- name: imported_of_path
SELECT e.pos FROM events e WHERE e.type = 'imported:files.changed' AND e.pos > :after AND e.pos < :before
  AND (CAST(:every AS integer) = 1 OR e.session || '/' || e.lane IN (SELECT jsonb_array_elements_text(CAST(:lanes AS jsonb))))
  AND EXISTS (SELECT 1 FROM jsonb_array_elements_text(CAST(COALESCE(e.file_touches, '[]') AS jsonb)) f (path)
    WHERE f.path = :path OR (f.path >= :inside AND f.path < :behind))
ORDER BY e.pos DESC LIMIT :limit

-- name: first_of_path
SELECT DISTINCT pos FROM touches WHERE (path = :path OR (path >= :inside AND path < :behind)) AND pos > :after AND pos < :before
ORDER BY pos LIMIT :limit

-- name: first_imported_of_path
SELECT e.pos FROM events e WHERE e.type = 'imported:files.changed' AND e.pos > :after AND e.pos < :before
  AND EXISTS (SELECT 1 FROM jsonb_array_elements_text(CAST(COALESCE(e.file_touches, '[]') AS jsonb)) f (path)
    WHERE f.path = :path OR (f.path >= :inside AND f.path < :behind))
ORDER BY e.pos LIMIT :limit

-- name: workspace
-- Of what relay carried to the main branch, the one that wrote it.
SELECT t.path, t.lane, t.after, e.id, e.at,
  (SELECT CAST(json_agg(DISTINCT c.lane) AS text) FROM touches c WHERE c.path = t.path AND (c.lane <> :main OR t.lane = :main)) AS contributors
FROM touches n
JOIN touches t ON t.path = n.path AND t.pos = CASE WHEN n.lane <> :main THEN n.pos ELSE COALESCE(
  (SELECT w.pos FROM touches w WHERE w.path = n.path AND w.lane <> :main AND EXISTS (SELECT 1 FROM events k WHERE k.pos = w.pos AND k.type = 'files.changed') AND w.after IS NOT DISTINCT FROM n.after
   ORDER BY w.pos DESC LIMIT 1), n.pos) END
JOIN events e ON e.pos = t.pos
WHERE (n.path = :path OR (n.path >= :inside AND n.path < :behind))
  AND n.pos = (SELECT l.pos FROM touches l WHERE l.path = n.path ORDER BY l.pos DESC LIMIT 1)
ORDER BY t.path

-- name: timeline_heads
SELECT e.pos, e.at, e.session, e.lane, e.type, e.snapshot, e.file_touches,
  CASE WHEN e.type NOT IN ('turn.started', 'turn.ended', 'imported:turn.started', 'imported:turn.ended') THEN e.outputs END AS outputs,
  CASE WHEN e.type NOT IN ('turn.started', 'turn.ended', 'imported:turn.started', 'imported:turn.ended') THEN (SELECT CAST(json_agg(DISTINCT c.pos) AS text) FROM events c
    WHERE c.id IN (SELECT jsonb_array_elements_text(CAST(e.parents AS jsonb) || CAST(e.causal_deps AS jsonb)))
      AND c.type IN (SELECT jsonb_array_elements_text(CAST(:types AS jsonb)))) END AS causes
FROM jsonb_array_elements_text(CAST(:positions AS jsonb)) p (pos) JOIN events e ON e.pos = CAST(p.pos AS bigint) ORDER BY e.pos

-- name: recorded_commits
SELECT w.at_commit, w.tree, e.id, e.branch, CAST(e.outputs AS jsonb)->>'source' AS source FROM worktree_trees w JOIN events e ON e.pos = w.pos
WHERE w.worktree = :worktree AND w.at_commit IN (SELECT jsonb_array_elements_text(CAST(:commits AS jsonb)))
ORDER BY w.pos
