-- name: index_memory
INSERT INTO memory_episodic_fts (rowid, terms) VALUES (:number, :terms)

-- name: unindex_memory
INSERT INTO memory_episodic_fts (memory_episodic_fts, rowid, terms) VALUES ('delete', :number, :terms)

-- The newest of the memories that have a term, as a JSON list.
-- name: memories_with
SELECT json_group_array(number) AS numbers
FROM (SELECT rowid AS number FROM memory_episodic_fts WHERE memory_episodic_fts MATCH :match
  ORDER BY rowid DESC LIMIT :limit)

-- The same, of those that happened in a time.
-- name: memories_with_in_time
SELECT json_group_array(number) AS numbers
FROM (SELECT f.rowid AS number FROM memory_episodic_fts f JOIN memory_episodic_words w ON w.number = f.rowid
  WHERE memory_episodic_fts MATCH :match AND w.at >= :since AND w.at < :until ORDER BY f.rowid DESC LIMIT :limit)

-- name: feedback_on
SELECT f.number, f.agent_id, f.useful FROM json_each(:numbers) j JOIN memory_feedback f ON f.number = j.value

-- name: memory_words
SELECT w.* FROM json_each(:numbers) j JOIN memory_episodic_words w ON w.number = j.value

-- What stood directly before and behind these in their sessions, each once.
-- name: memory_neighbours
WITH near (number) AS (
  SELECT n.value FROM json_each(:numbers) j JOIN memory_episodic_words a ON a.number = j.value
  JOIN json_each((SELECT json_group_array(number) FROM (SELECT b.number FROM memory_episodic_words b
    WHERE b.session_id = a.session_id AND (b.at, b.number) < (a.at, a.number)
    ORDER BY b.at DESC, b.number DESC LIMIT :turns))) n WHERE a.session_id <> ''
  UNION
  SELECT n.value FROM json_each(:numbers) j JOIN memory_episodic_words a ON a.number = j.value
  JOIN json_each((SELECT json_group_array(number) FROM (SELECT b.number FROM memory_episodic_words b
    WHERE b.session_id = a.session_id AND (b.at, b.number) > (a.at, a.number)
    ORDER BY b.at, b.number LIMIT :turns))) n WHERE a.session_id <> '')
SELECT w.number, w.agent_id, w.session_id, w.at, w.outcome, w.useful, w.useless, w.summary_count, w.body_count
FROM near JOIN memory_episodic_words w ON w.number = near.number

-- What the turns of a conversation were given and asked, the newest first.
-- name: inputs_of_turns
SELECT inputs->>'$.memories' AS memories, inputs->>'$.messages' AS messages FROM events INDEXED BY events_turns
WHERE session = :session AND lane = :lane AND seq < :before AND type = 'turn.started' ORDER BY seq DESC LIMIT :limit

-- name: memories_of_ids
SELECT m.* FROM json_each(:ids) i JOIN memory_episodic m ON m.id = i.value ORDER BY m.number

-- name: memories_of_numbers
SELECT m.*, (SELECT json_group_array(key) FROM (SELECT k.key FROM memory_keys k WHERE k.number = m.number ORDER BY k.key))
  AS keys
FROM json_each(:numbers) j JOIN memory_episodic m ON m.number = j.value WHERE m.forgotten_at IS NULL

-- name: count_words
INSERT INTO memory_word_counts (kind, word, n) SELECT :kind, key, value FROM json_each(:changes) WHERE true
ON CONFLICT (kind, word) DO UPDATE SET n = n + excluded.n

-- name: word_counts
SELECT word, n FROM memory_word_counts WHERE kind = :kind AND word IN (SELECT value FROM json_each(:words))

-- name: vectors_there
SELECT v.number FROM json_each(:numbers) j JOIN memory_vectors v ON v.model = :model AND v.number = j.value

-- name: events_remembered
SELECT event_id FROM memory_events WHERE event_id IN (SELECT value FROM json_each(:events))
