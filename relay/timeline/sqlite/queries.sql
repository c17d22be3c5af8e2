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
