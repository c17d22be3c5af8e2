-- name: with_numbers
SELECT e.* FROM json_each(:numbers) n JOIN knowledge_entries e ON e.number = n.value
WHERE e.valid_from <= :until AND (e.valid_to IS NULL OR e.valid_to > :open_at)
  AND (e.audience = 0 OR e.audience IN (SELECT r.audience FROM knowledge_readers r
    WHERE r.reader IN ('@' || CAST(:me AS text), (SELECT 'role:' || o.role FROM knowledge_roles o WHERE o.agent_id = :me))))

-- name: counted
SELECT c.word, SUM(c.entries) AS entries FROM json_each(:words) w JOIN knowledge_counts c ON c.word = w.value
WHERE (c.audience = 0 OR c.audience IN (SELECT r.audience FROM knowledge_readers r
    WHERE r.reader IN ('@' || CAST(:me AS text), (SELECT 'role:' || o.role FROM knowledge_roles o WHERE o.agent_id = :me))))
GROUP BY c.word

-- What the file was called before, and from when on.
-- name: renamed_from
SELECT f.origin AS path, f.valid_from FROM knowledge_files f INDEXED BY knowledge_renames_to
WHERE f.path = :path AND f.origin IS NOT NULL AND f.valid_from <= :until
  AND (f.audience = 0 OR f.audience IN (SELECT r.audience FROM knowledge_readers r
    WHERE r.reader IN ('@' || CAST(:me AS text), (SELECT 'role:' || o.role FROM knowledge_roles o WHERE o.agent_id = :me))))
ORDER BY f.valid_from DESC LIMIT 8

-- name: with_words
SELECT w.number FROM json_each(:words) x JOIN knowledge_words w ON w.word = x.value->>'word'
WHERE w.valid_from <= :until AND (:agent = '' OR w.agent_id = :agent) AND (:kind = '' OR w.kind = :kind)
  AND (w.audience = 0 OR w.audience IN (SELECT r.audience FROM knowledge_readers r
    WHERE r.reader IN ('@' || CAST(:me AS text), (SELECT 'role:' || o.role FROM knowledge_roles o WHERE o.agent_id = :me))))
GROUP BY w.number, w.valid_from ORDER BY SUM(x.value->>'weight') DESC, w.valid_from DESC, w.number DESC LIMIT :limit

-- name: relations_of
SELECT r.source AS source_number, s.id AS source, s.agent_id AS agent, s.event_id AS event, r.relation,
  r.target AS target_number, t.id AS target
FROM (SELECT o.source, o.relation, o.target FROM json_each(:numbers) n JOIN knowledge_relations o ON o.source = n.value
      UNION SELECT i.source, i.relation, i.target FROM json_each(:numbers) n JOIN knowledge_relations i ON i.target = n.value) r
JOIN knowledge_entries s ON s.number = r.source JOIN knowledge_entries t ON t.number = r.target
WHERE s.valid_from <= :until AND (s.valid_to IS NULL OR s.valid_to > :open_at) AND t.valid_from <= :until AND (t.valid_to IS NULL OR t.valid_to > :open_at)
  AND (s.audience = 0 OR s.audience IN (SELECT r.audience FROM knowledge_readers r
    WHERE r.reader IN ('@' || CAST(:me AS text), (SELECT 'role:' || o.role FROM knowledge_roles o WHERE o.agent_id = :me))))
  AND (t.audience = 0 OR t.audience IN (SELECT r.audience FROM knowledge_readers r
    WHERE r.reader IN ('@' || CAST(:me AS text), (SELECT 'role:' || o.role FROM knowledge_roles o WHERE o.agent_id = :me))))
ORDER BY r.source DESC, r.target DESC, r.relation LIMIT :limit

-- name: audiences_of
SELECT DISTINCT a.audience, a.visibility, a.names FROM json_each(:numbers) n JOIN knowledge_entries e ON e.number = n.value
JOIN knowledge_audiences a ON a.audience = e.audience
WHERE (e.audience = 0 OR e.audience IN (SELECT r.audience FROM knowledge_readers r
    WHERE r.reader IN ('@' || CAST(:me AS text), (SELECT 'role:' || o.role FROM knowledge_roles o WHERE o.agent_id = :me))))

-- name: uses_of
SELECT u.id, u.agent_id, u.event_id, u.at FROM json_each(:ids) i JOIN knowledge_entries e ON e.id = i.value
JOIN knowledge_uses u ON u.id = e.id
WHERE (e.audience = 0 OR e.audience IN (SELECT r.audience FROM knowledge_readers r
    WHERE r.reader IN ('@' || CAST(:me AS text), (SELECT 'role:' || o.role FROM knowledge_roles o WHERE o.agent_id = :me))))
ORDER BY u.at, u.agent_id, u.event_id

-- name: unread
SELECT i.value AS id FROM json_each(:ids) i
WHERE NOT EXISTS (SELECT 1 FROM knowledge_uses u WHERE u.id = i.value AND u.agent_id = :me AND u.event_id = '')

-- name: put_reads
INSERT INTO knowledge_uses (id, agent_id, event_id, at) SELECT i.value, :me, '', :now FROM json_each(:ids) i WHERE true
ON CONFLICT (id, agent_id, event_id) DO NOTHING

-- name: put_readers
INSERT INTO knowledge_readers (reader, audience) SELECT value, :audience FROM json_each(:readers)

-- name: put_roles
INSERT INTO knowledge_roles (agent_id, role) SELECT value->>'agent', value->>'role' FROM json_each(:roles)

-- Of the newest older ones with one of the words those that have all of them.
-- name: of_words
SELECT e.* FROM (
  SELECT w.number FROM knowledge_words w WHERE w.word = :word AND w.audience = :audience AND w.number < :number
  ORDER BY w.valid_from DESC, w.number DESC LIMIT :most) n JOIN knowledge_entries e ON e.number = n.number
WHERE e.statement IS NOT NULL AND e.valid_to IS NULL AND e.kind NOT IN ('problem', 'solution') AND NOT EXISTS (SELECT 1 FROM json_each(:words) x
  WHERE NOT EXISTS (SELECT 1 FROM knowledge_words o WHERE o.word = x.value AND o.valid_from = e.valid_from AND o.number = e.number))
ORDER BY e.number DESC LIMIT :limit

-- Of the oldest later ones with one of the words those that have all of them and have chosen against something.
-- name: later_of_words
SELECT e.* FROM (
  SELECT w.number FROM knowledge_words w
  WHERE w.word = :word AND w.audience = :audience AND w.number > :after AND w.valid_from >= :since
  ORDER BY w.valid_from, w.number LIMIT :most) n JOIN knowledge_entries e ON e.number = n.number
WHERE e.statement IS NOT NULL AND e.alternatives <> '[]' AND e.standing >= :standing AND e.kind NOT IN ('problem', 'solution')
  AND NOT EXISTS (SELECT 1 FROM json_each(:words) x
  WHERE NOT EXISTS (SELECT 1 FROM knowledge_words o WHERE o.word = x.value AND o.valid_from = e.valid_from AND o.number = e.number))
ORDER BY e.number LIMIT :limit

-- name: entry_of_ids
SELECT e.* FROM json_each(:ids) i JOIN knowledge_entries e ON e.id = i.value ORDER BY e.number

-- name: put_entries
INSERT INTO knowledge_entries (number, id, kind, content, agent_id, event_id, topics, files, confidence, rationale, alternatives, severity,
  extracted_by, audience, standing, created_at, valid_from, statement, words, other_words)
SELECT value->>'number', value->>'id', value->>'kind', value->>'content', value->>'agent', value->>'event', value->>'topics', value->>'files', value->>'confidence', value->>'rationale', value->>'alternatives', value->>'severity', value->>'extractor', value->>'audience', value->>'standing', value->>'at', value->>'at', value->>'statement', value->>'words', value->>'other_words'
FROM json_each(:rows)

-- name: put_words
INSERT INTO knowledge_words (word, valid_from, number, agent_id, kind, audience)
SELECT w.value, r.value->>'at', r.value->>'number', r.value->>'agent', r.value->>'kind', r.value->>'audience'
FROM json_each(:rows) r, json_each(r.value->'words') w ORDER BY 1, 2, 3

-- name: put_files
INSERT INTO knowledge_files (path, valid_from, number, agent_id, kind, audience, origin)
SELECT p.value->>'path', r.value->>'at', r.value->>'number', r.value->>'agent', r.value->>'kind', r.value->>'audience', p.value->>'from'
FROM json_each(:rows) r, json_each(r.value->'paths') p

-- name: put_counts
INSERT INTO knowledge_counts (word, audience, entries)
SELECT value->>'word', value->>'audience', value->>'entries' FROM json_each(:rows) WHERE true
ON CONFLICT (word, audience) DO UPDATE SET entries = entries + excluded.entries

-- name: drop_words
DELETE FROM knowledge_words WHERE word IN (SELECT value FROM json_each(:words)) AND valid_from = :at AND number = :number

-- name: drop_files
DELETE FROM knowledge_files WHERE path IN (SELECT value FROM json_each(:paths)) AND valid_from = :at AND number = :number

-- What ended these entries, which whoever may read them may read. `number`: of the memory of its event.
-- name: entry_of_end
SELECT e.id, c.id AS ended_by, m.number FROM json_each(:ids) i JOIN knowledge_entries e ON e.id = i.value
JOIN knowledge_entries c ON c.id = e.closed_by AND c.audience >= 0 AND c.audience IN (0, e.audience)
LEFT JOIN memory_events v ON v.event_id = c.event_id
LEFT JOIN memory_episodic m ON m.number = v.number AND m.forgotten_at IS NULL

-- name: memories_of_events
SELECT v.event_id, m.number FROM json_each(:events) i JOIN memory_events v ON v.event_id = i.value
JOIN memory_episodic m ON m.number = v.number AND m.forgotten_at IS NULL
