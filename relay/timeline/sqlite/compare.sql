-- name: last_writers
-- Who wrote the content that stands there; who carried it to the main branch only where nobody else did.
SELECT t.path, t.lane, t.pos, e.id, e.at FROM json_each(:blobs) b
JOIN touches t ON t.path = b.key
  AND t.pos = (SELECT o.pos FROM touches o WHERE o.path = b.key AND o.after = b.value AND o.pos <= :until
    ORDER BY o.lane = :main, o.pos DESC LIMIT 1)
JOIN events e ON e.pos = t.pos
