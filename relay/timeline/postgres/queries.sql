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

-- name: timeline
SELECT * FROM events WHERE type IN (SELECT jsonb_array_elements_text(CAST(:types AS jsonb))) AND pos > :after AND pos < :before
ORDER BY pos DESC LIMIT :limit

-- name: timeline_of_lanes
SELECT e.* FROM jsonb_array_elements_text(CAST(:lanes AS jsonb)) l (key) JOIN events e
  ON e.session = split_part(l.key, '/', 1) AND e.lane = substr(l.key, strpos(l.key, '/') + 1)
WHERE e.type IN (SELECT jsonb_array_elements_text(CAST(:types AS jsonb))) AND e.pos > :after AND e.pos < :before
ORDER BY e.pos DESC LIMIT :limit

-- name: timeline_of_path
SELECT * FROM events WHERE pos IN (
  SELECT pos FROM touches WHERE (path = :path OR (path >= :inside AND path < :behind)) AND pos > :after AND pos < :before
    AND (CAST(:every AS integer) = 1 OR lane IN (SELECT jsonb_array_elements_text(CAST(:lanes AS jsonb))))
  ORDER BY pos DESC LIMIT :limit * 8)
ORDER BY pos DESC LIMIT :limit

-- name: workspace
SELECT t.path, t.lane, t.after, e.id, e.at,
  (SELECT CAST(json_agg(DISTINCT c.lane) AS text) FROM touches c WHERE c.path = t.path) AS contributors
FROM touches t JOIN events e ON e.pos = t.pos
WHERE (t.path = :path OR (t.path >= :inside AND t.path < :behind))
  AND t.pos = (SELECT n.pos FROM touches n WHERE n.path = t.path ORDER BY n.pos DESC LIMIT 1)
ORDER BY t.path
