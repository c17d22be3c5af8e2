-- name: index_memory
INSERT INTO memory_episodic_fts (number, words) VALUES (:number, array_to_tsvector(string_to_array(:terms, ' ')))

-- name: unindex_memory
DELETE FROM memory_episodic_fts WHERE number = :number AND CAST(:terms AS text) <> ''

-- The newest of the memories that have a term, as a JSON list.
-- name: memories_with
WITH hits AS MATERIALIZED (
  SELECT number FROM memory_episodic_fts
  WHERE words @@ CAST(replace(replace(replace(:match, '"', ''''), ' AND ', ' & '), ' OR ', ' | ') AS tsquery))
SELECT CAST(coalesce(json_agg(number), '[]') AS text) AS numbers
FROM (SELECT number FROM hits ORDER BY number DESC LIMIT :limit) newest

-- The same, of those that happened in a time.
-- name: memories_with_in_time
WITH hits AS MATERIALIZED (
  SELECT number FROM memory_episodic_fts
  WHERE words @@ CAST(replace(replace(replace(:match, '"', ''''), ' AND ', ' & '), ' OR ', ' | ') AS tsquery))
SELECT CAST(coalesce(json_agg(number), '[]') AS text) AS numbers
FROM (SELECT hits.number FROM hits JOIN memory_episodic_words w ON w.number = hits.number
  WHERE w.at >= :since AND w.at < :until ORDER BY hits.number DESC LIMIT :limit) newest

-- name: feedback_on
SELECT f.number, f.agent_id, f.useful FROM memory_feedback f
WHERE f.number = ANY (ARRAY(SELECT CAST(jsonb_array_elements(CAST(:numbers AS jsonb)) AS bigint)))

-- name: memory_words
SELECT w.* FROM memory_episodic_words w
WHERE w.number = ANY (ARRAY(SELECT CAST(jsonb_array_elements(CAST(:numbers AS jsonb)) AS bigint)))

-- What stood directly before and behind these in their sessions, each once.
-- name: memory_neighbours
WITH hits AS (
  SELECT a.session_id, a.at, a.number FROM memory_episodic_words a
  WHERE a.number = ANY (ARRAY(SELECT CAST(jsonb_array_elements(CAST(:numbers AS jsonb)) AS bigint)))
    AND a.session_id <> ''),
near AS (
  SELECT n.number FROM hits a CROSS JOIN LATERAL (SELECT b.number FROM memory_episodic_words b
    WHERE b.session_id = a.session_id AND (b.at, b.number) < (a.at, a.number)
    ORDER BY b.at DESC, b.number DESC LIMIT :turns) n
  UNION
  SELECT n.number FROM hits a CROSS JOIN LATERAL (SELECT b.number FROM memory_episodic_words b
    WHERE b.session_id = a.session_id AND (b.at, b.number) > (a.at, a.number)
    ORDER BY b.at, b.number LIMIT :turns) n)
SELECT w.number, w.agent_id, w.session_id, w.at, w.outcome, w.useful, w.useless, w.summary_count, w.body_count
FROM near JOIN memory_episodic_words w ON w.number = near.number

-- What the turns of a conversation were given and asked, the newest first.
-- name: inputs_of_turns
SELECT CAST(inputs AS json)->>'memories' AS memories, CAST(inputs AS json)->>'messages' AS messages FROM events
WHERE session = :session AND lane = :lane AND seq < :before AND type = 'turn.started' ORDER BY seq DESC LIMIT :limit

-- name: memories_of_ids
SELECT m.* FROM jsonb_array_elements_text(CAST(:ids AS jsonb)) i (value) JOIN memory_episodic m ON m.id = i.value ORDER BY m.number

-- name: memories_of_numbers
SELECT m.*, (SELECT CAST(coalesce(json_agg(k.key ORDER BY k.key), '[]') AS text) FROM memory_keys k
  WHERE k.number = m.number) AS keys
FROM memory_episodic m
WHERE m.number = ANY (ARRAY(SELECT CAST(jsonb_array_elements(CAST(:numbers AS jsonb)) AS bigint)))
  AND m.forgotten_at IS NULL

-- name: count_words
INSERT INTO memory_word_counts (kind, word, n)
SELECT :kind, c.key, CAST(c.value AS bigint) FROM jsonb_each_text(CAST(:changes AS jsonb)) AS c ORDER BY c.key
ON CONFLICT (kind, word) DO UPDATE SET n = memory_word_counts.n + excluded.n

-- name: word_counts
SELECT word, n FROM memory_word_counts
WHERE kind = :kind AND word = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:words AS jsonb))))

-- name: vectors_there
SELECT v.number FROM memory_vectors v WHERE v.model = :model
  AND v.number = ANY (ARRAY(SELECT CAST(jsonb_array_elements(CAST(:numbers AS jsonb)) AS bigint)))

-- name: events_remembered
SELECT event_id FROM memory_events WHERE event_id = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:events AS jsonb))))
