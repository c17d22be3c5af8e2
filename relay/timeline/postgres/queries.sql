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
