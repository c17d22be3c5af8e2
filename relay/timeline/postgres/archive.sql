-- name: used_bytes
SELECT CAST(pg_total_relation_size('events') + pg_total_relation_size('touches') + pg_total_relation_size('event_stubs') AS bigint) AS n

-- name: kept_events
-- What the room's tables are made from, or point to.
SELECT e.pos FROM events e WHERE e.pos > :after AND e.pos <= :upto AND (
  EXISTS (SELECT 1 FROM jsonb_array_elements_text(CAST(:types AS jsonb)) t (type) WHERE starts_with(e.type, t.type))
  OR e.pos IN (SELECT MAX(pos) FROM worktree_trees GROUP BY worktree)
  OR (e.type = 'files.changed' AND EXISTS (SELECT 1 FROM touches t WHERE t.lane = e.session || '/' || e.lane AND t.seq = e.seq
    AND NOT EXISTS (SELECT 1 FROM touches n WHERE n.path = t.path AND n.pos > e.pos)))
  OR e.pos IN (SELECT unseen FROM touches WHERE unseen IS NOT NULL)
  OR EXISTS (SELECT 1 FROM imported_events n JOIN lanes l ON l.session = e.session AND l.lane = e.lane AND l.head = e.id WHERE n.pos = e.pos))

-- name: put_archived_stubs
INSERT INTO event_stubs (id, session, lane, seq, parents)
SELECT id, session, lane, seq, parents FROM events
WHERE pos > :after AND pos <= :upto AND pos NOT IN (SELECT CAST(jsonb_array_elements_text(CAST(:kept AS jsonb)) AS bigint)) ON CONFLICT DO NOTHING

-- name: drop_archived_touches
DELETE FROM touches WHERE pos > :after AND pos <= :upto AND pos NOT IN (SELECT CAST(jsonb_array_elements_text(CAST(:kept AS jsonb)) AS bigint))

-- name: drop_archived_trees
DELETE FROM worktree_trees WHERE pos > :after AND pos <= :upto AND pos NOT IN (SELECT CAST(jsonb_array_elements_text(CAST(:kept AS jsonb)) AS bigint))

-- name: drop_archived_notes
DELETE FROM imported_events WHERE pos > :after AND pos <= :upto AND pos NOT IN (SELECT CAST(jsonb_array_elements_text(CAST(:kept AS jsonb)) AS bigint))

-- name: drop_archived_events
DELETE FROM events WHERE pos > :after AND pos <= :upto AND pos NOT IN (SELECT CAST(jsonb_array_elements_text(CAST(:kept AS jsonb)) AS bigint))

-- name: stubs_of
SELECT id FROM event_stubs WHERE id IN (SELECT jsonb_array_elements_text(CAST(:ids AS jsonb)))
