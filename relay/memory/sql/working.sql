-- name: working_notes
SELECT place, key, content, critical, compressed, stored, event_id FROM memory_working
WHERE agent_id = :agent AND session_id = :session ORDER BY place

-- A note that is stored again keeps its place.
-- name: put_note
INSERT INTO memory_working (agent_id, session_id, place, key, content, critical, compressed, stored, event_id,
  updated_at)
VALUES (:agent, :session, :place, :key, :content, :critical, 0, :stored, :event_id, :now)
ON CONFLICT (agent_id, session_id, key) DO UPDATE SET content = excluded.content, critical = excluded.critical,
  compressed = 0, stored = excluded.stored, event_id = excluded.event_id, updated_at = excluded.updated_at

-- name: compress_note
UPDATE memory_working SET content = :content, compressed = 1
WHERE agent_id = :agent AND session_id = :session AND place = :place

-- name: drop_note
DELETE FROM memory_working WHERE agent_id = :agent AND session_id = :session AND place = :place
