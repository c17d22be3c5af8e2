-- name: index_memory
INSERT INTO memory_episodic_fts (number, words) VALUES (:number, to_tsvector('relay_stems', :text))

-- name: index_memory_anew
UPDATE memory_episodic_fts SET words = to_tsvector('relay_stems', :text) WHERE number = :number

-- What is old gives way before the limit, not behind it: else enough of it would hide what is new.
-- name: found_memories
SELECT m.*, CAST(ts_rank(f.words, relay_any_of(:looked)) AS double precision) AS score
FROM memory_episodic_fts f JOIN memory_episodic m ON m.number = f.number
WHERE f.words @@ relay_any_of(:looked) ORDER BY ts_rank(f.words, relay_any_of(:looked)) * power(0.5, GREATEST(0, :now - m.updated_at) / :half_life) DESC,
  m.number DESC LIMIT :limit

-- name: found_memories_tagged
SELECT m.*, CAST(ts_rank(f.words, relay_any_of(:looked)) AS double precision) AS score
FROM memory_episodic_fts f JOIN memory_episodic m ON m.number = f.number
WHERE f.words @@ relay_any_of(:looked)
  AND ARRAY(SELECT jsonb_array_elements_text(CAST(m.tags AS jsonb)))
    && ARRAY(SELECT jsonb_array_elements_text(CAST(:tags AS jsonb)))
ORDER BY ts_rank(f.words, relay_any_of(:looked)) * power(0.5, GREATEST(0, :now - m.updated_at) / :half_life) DESC,
  m.number DESC LIMIT :limit

-- name: covered_words
SELECT f.number, COUNT(*) AS covered
FROM jsonb_array_elements_text(CAST(:words AS jsonb)) AS w (word)
JOIN memory_episodic_fts f ON f.words @@ phraseto_tsquery('relay_stems', w.word)
WHERE f.number = ANY (ARRAY(SELECT CAST(jsonb_array_elements(CAST(:numbers AS jsonb)) AS bigint))) GROUP BY f.number

-- name: newest_memories_tagged
SELECT m.* FROM memory_episodic m WHERE m.updated_at > :since
  AND ARRAY(SELECT jsonb_array_elements_text(CAST(m.tags AS jsonb)))
    && ARRAY(SELECT jsonb_array_elements_text(CAST(:tags AS jsonb)))
ORDER BY m.updated_at DESC, m.number DESC LIMIT :limit
