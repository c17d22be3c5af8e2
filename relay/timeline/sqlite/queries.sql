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

-- name: timeline
SELECT * FROM events WHERE type IN (SELECT value FROM json_each(:types)) AND pos > :after AND pos < :before
ORDER BY pos DESC LIMIT :limit

-- name: timeline_of_lanes
SELECT e.* FROM json_each(:lanes) l JOIN events e ON e.session = substr(l.value, 1, instr(l.value, '/') - 1)
  AND e.lane = substr(l.value, instr(l.value, '/') + 1)
WHERE e.type IN (SELECT value FROM json_each(:types)) AND e.pos > :after AND e.pos < :before
ORDER BY e.pos DESC LIMIT :limit

-- name: timeline_of_path
SELECT * FROM events WHERE pos IN (
  SELECT pos FROM touches WHERE (path = :path OR (path >= :inside AND path < :behind)) AND pos > :after AND pos < :before
    AND (:every OR lane IN (SELECT value FROM json_each(:lanes)))
  ORDER BY pos DESC LIMIT :limit * 8)
ORDER BY pos DESC LIMIT :limit

-- name: workspace
SELECT t.path, t.lane, t.after, e.id, e.at,
  (SELECT json_group_array(DISTINCT c.lane) FROM touches c WHERE c.path = t.path) AS contributors
FROM touches t JOIN events e ON e.pos = t.pos
WHERE (t.path = :path OR (t.path >= :inside AND t.path < :behind))
  AND t.pos = (SELECT n.pos FROM touches n WHERE n.path = t.path ORDER BY n.pos DESC LIMIT 1)
ORDER BY t.path
