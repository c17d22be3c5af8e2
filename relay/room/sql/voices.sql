-- name: read_mark
SELECT upto, seen FROM read_marks WHERE agent_id = :agent AND session_id = :session

-- name: put_read_mark
INSERT INTO read_marks (agent_id, session_id, upto, seen) VALUES (:agent, :session, :upto, :seen)
ON CONFLICT (agent_id, session_id) DO UPDATE SET upto = excluded.upto, seen = excluded.seen

-- name: latest_speakers
SELECT DISTINCT speaker
FROM (SELECT speaker, kind FROM messages WHERE pos > 0 ORDER BY pos DESC LIMIT :limit) AS latest
WHERE kind = :kind
