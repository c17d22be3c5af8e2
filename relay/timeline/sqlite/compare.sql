-- name: last_writers
-- Who wrote the content that stands there; who carried it to the main branch only where nobody else did, and who restored it by a rewind.
SELECT t.path, t.lane, t.pos, e.id, e.at FROM json_each(:blobs) b
JOIN touches t ON t.path = b.key
  AND t.pos = (SELECT o.pos FROM touches o WHERE o.path = b.key AND o.after = b.value AND o.pos <= :until
    ORDER BY o.lane = :main, EXISTS (SELECT 1 FROM events k WHERE k.pos = o.pos AND k.type <> 'files.changed'), o.pos DESC LIMIT 1)
JOIN events e ON e.pos = t.pos
