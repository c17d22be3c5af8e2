-- name: index_memory
INSERT INTO memory_episodic_fts (rowid, text) VALUES (:number, :text)

-- name: index_memory_anew
UPDATE memory_episodic_fts SET text = :text WHERE rowid = :number

-- What is old gives way before the limit, not behind it: else enough of it would hide what is new.
-- name: found_memories
SELECT m.*, -f.rank AS score FROM memory_episodic_fts f JOIN memory_episodic m ON m.number = f.rowid
WHERE f.memory_episodic_fts MATCH
  (SELECT group_concat('"' || value || '"', ' OR ') FROM json_each(:looked))
ORDER BY f.rank * relay_decay(:now - m.updated_at, :half_life) LIMIT :limit

-- name: found_memories_tagged
SELECT m.*, -f.rank AS score FROM memory_episodic_fts f JOIN memory_episodic m ON m.number = f.rowid
WHERE f.memory_episodic_fts MATCH
  (SELECT group_concat('"' || value || '"', ' OR ') FROM json_each(:looked))
  AND EXISTS (SELECT 1 FROM json_each(m.tags) t WHERE t.value IN (SELECT value FROM json_each(:tags)))
ORDER BY f.rank * relay_decay(:now - m.updated_at, :half_life) LIMIT :limit

-- The plus keeps each word to one walk of its hits, not one look a memory.
-- name: covered_words
SELECT f.rowid AS number, COUNT(*) AS covered FROM json_each(:words) w
JOIN memory_episodic_fts f ON f.memory_episodic_fts MATCH '"' || w.value || '"'
WHERE +f.rowid IN (SELECT value FROM json_each(:numbers)) GROUP BY f.rowid

-- name: newest_memories_tagged
SELECT m.* FROM memory_episodic m WHERE m.updated_at > :since
  AND EXISTS (SELECT 1 FROM json_each(m.tags) t WHERE t.value IN (SELECT value FROM json_each(:tags)))
ORDER BY m.updated_at DESC, m.number DESC LIMIT :limit
