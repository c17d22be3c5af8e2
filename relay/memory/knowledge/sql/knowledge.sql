-- Of each statement that an agent's question runs: :me is who asks. What it may not read is not counted, weighed or joined.
-- :until, :open_at: as of a time; 1e18 and -1e18 for any.

-- name: newest_of_kind
SELECT e.* FROM knowledge_entries e WHERE e.kind = :kind AND e.valid_from <= :until AND (e.valid_to IS NULL OR e.valid_to > :open_at)
  AND (e.audience = 0 OR e.audience IN (SELECT r.audience FROM knowledge_readers r
    WHERE r.reader IN ('@' || CAST(:me AS text), (SELECT 'role:' || o.role FROM knowledge_roles o WHERE o.agent_id = :me))))
ORDER BY e.valid_from DESC, e.number DESC LIMIT :limit

-- name: newest_of_agent_and_kind
SELECT e.* FROM knowledge_entries e WHERE e.agent_id = :agent AND e.kind = :kind AND e.valid_from <= :until AND (e.valid_to IS NULL OR e.valid_to > :open_at)
  AND (e.audience = 0 OR e.audience IN (SELECT r.audience FROM knowledge_readers r
    WHERE r.reader IN ('@' || CAST(:me AS text), (SELECT 'role:' || o.role FROM knowledge_roles o WHERE o.agent_id = :me))))
ORDER BY e.valid_from DESC, e.number DESC LIMIT :limit

-- Of one file: the newest, and of so many at most those of the agent and the kind.
-- name: newest_of_file
SELECT n.number, n.valid_from FROM (
  SELECT f.number, f.valid_from, f.agent_id, f.kind FROM knowledge_files f
  WHERE f.path = :path AND f.valid_from >= :since AND f.valid_from <= :until
  AND (f.audience = 0 OR f.audience IN (SELECT r.audience FROM knowledge_readers r
    WHERE r.reader IN ('@' || CAST(:me AS text), (SELECT 'role:' || o.role FROM knowledge_roles o WHERE o.agent_id = :me))))
  ORDER BY f.valid_from DESC, f.number DESC LIMIT :most) n
WHERE (CAST(:agent AS text) = '' OR n.agent_id = :agent) AND (CAST(:kind AS text) = '' OR n.kind = :kind) LIMIT :limit

-- What the file is called later, and from when on.
-- name: renamed_to
SELECT f.path, f.valid_from FROM knowledge_files f
WHERE f.origin = :path AND f.valid_from >= :since AND f.valid_from <= :until
  AND (f.audience = 0 OR f.audience IN (SELECT r.audience FROM knowledge_readers r
    WHERE r.reader IN ('@' || CAST(:me AS text), (SELECT 'role:' || o.role FROM knowledge_roles o WHERE o.agent_id = :me))))
ORDER BY f.valid_from DESC LIMIT 8

-- name: words_beginning
SELECT c.word, CAST(SUM(c.entries) AS bigint) AS entries FROM knowledge_counts c
WHERE c.word >= :least AND c.word < :most AND c.entries > 0
  AND (c.audience = 0 OR c.audience IN (SELECT r.audience FROM knowledge_readers r
    WHERE r.reader IN ('@' || CAST(:me AS text), (SELECT 'role:' || o.role FROM knowledge_roles o WHERE o.agent_id = :me))))
GROUP BY c.word ORDER BY 2 DESC, c.word LIMIT :limit

-- Of one word that is common: the newest, and of so many at most those of the agent and the kind.
-- name: newest_with_word
SELECT n.number, n.valid_from FROM (
  SELECT w.number, w.valid_from, w.agent_id, w.kind FROM knowledge_words w WHERE w.word = :word AND w.valid_from <= :until
  AND (w.audience = 0 OR w.audience IN (SELECT r.audience FROM knowledge_readers r
    WHERE r.reader IN ('@' || CAST(:me AS text), (SELECT 'role:' || o.role FROM knowledge_roles o WHERE o.agent_id = :me))))
  ORDER BY w.valid_from DESC, w.number DESC LIMIT :most) n
WHERE (CAST(:agent AS text) = '' OR n.agent_id = :agent) AND (CAST(:kind AS text) = '' OR n.kind = :kind) LIMIT :limit

-- name: entry_with_id
SELECT e.* FROM knowledge_entries e WHERE e.id >= :least AND e.id < :most
  AND (e.audience = 0 OR e.audience IN (SELECT r.audience FROM knowledge_readers r
    WHERE r.reader IN ('@' || CAST(:me AS text), (SELECT 'role:' || o.role FROM knowledge_roles o WHERE o.agent_id = :me))))
ORDER BY e.id LIMIT 2

-- name: audience
SELECT audience FROM knowledge_audiences WHERE agent_id = :agent AND visibility = :visibility AND names = :names

-- name: put_audience
INSERT INTO knowledge_audiences (audience, agent_id, visibility, names)
SELECT coalesce(MAX(audience), 0) + 1, CAST(:agent AS text), CAST(:visibility AS text), CAST(:names AS text)
FROM knowledge_audiences

-- name: clear_roles
DELETE FROM knowledge_roles

-- name: entries_known
SELECT number FROM knowledge_entries WHERE number >= :least AND number <= :most

-- name: entry_numbered
SELECT number, audience FROM knowledge_entries WHERE id = :id

-- name: entries_of_event
SELECT * FROM knowledge_entries WHERE number >= :least AND number <= :most ORDER BY number

-- name: hide_entry
UPDATE knowledge_entries SET audience = :audience WHERE number = :number

-- name: entry_of_number
SELECT * FROM knowledge_entries WHERE number = :number

-- Of what an author names: what everybody may read, what it shares with the same readers, owns, or was shown by name.
-- name: named_by_id
SELECT e.* FROM knowledge_entries e WHERE e.id >= :least AND e.id < :most AND e.number < :number
  AND (e.audience IN (0, :audience) OR e.audience IN (SELECT r.audience FROM knowledge_readers r WHERE r.reader = :reader))
ORDER BY e.id LIMIT 2

-- name: named_by_statement
SELECT e.* FROM knowledge_entries e WHERE e.statement = :statement AND e.number < :number AND e.valid_to IS NULL
  AND (e.audience IN (0, :audience) OR e.audience IN (SELECT r.audience FROM knowledge_readers r WHERE r.reader = :reader))
ORDER BY e.number DESC LIMIT 1

-- name: of_statement
SELECT e.* FROM knowledge_entries e WHERE e.statement = :statement AND e.number < :number AND e.valid_to IS NULL AND e.kind NOT IN ('problem', 'solution')
  AND e.audience = :audience
ORDER BY e.number DESC LIMIT :limit

-- name: put_relation
INSERT INTO knowledge_relations (source, relation, target) VALUES (:source, :relation, :target)
ON CONFLICT (source, target, relation) DO NOTHING

-- name: close_entry
UPDATE knowledge_entries SET valid_to = CASE WHEN valid_from > :at THEN valid_from ELSE :at END, closed_by = :by
WHERE number = :number AND valid_to IS NULL

-- name: open_entry
UPDATE knowledge_entries SET valid_to = NULL, closed_by = NULL WHERE number = :number

-- name: closed_by_entry
SELECT e.* FROM knowledge_entries e WHERE e.closed_by = :id
  AND e.number IN (SELECT r.target FROM knowledge_relations r WHERE r.source = :number) ORDER BY e.number

-- What may end an entry: everybody who reads it reads that, and it is by no lesser word.
-- name: enders_of
SELECT DISTINCT s.* FROM knowledge_relations r JOIN knowledge_entries s ON s.number = r.source
WHERE r.target = :number AND r.relation IN ('contradicts', 'supersedes') AND s.audience IN (0, :audience)
  AND s.standing >= :standing ORDER BY s.number

-- name: superseding
SELECT source FROM knowledge_relations WHERE source = :source AND target = :target AND relation = 'supersedes'

-- name: later_of_statement
SELECT e.* FROM knowledge_entries e WHERE e.statement = :statement AND e.number > :after AND e.kind NOT IN ('problem', 'solution')
  AND e.audience = :audience AND e.standing >= :standing
ORDER BY e.number LIMIT :limit

-- name: validate_entry
UPDATE knowledge_entries SET validated_at = :at WHERE number = :number

-- name: put_mention
INSERT INTO knowledge_uses (id, agent_id, event_id, at) VALUES (:id, :agent, :event, :at)
ON CONFLICT (id, agent_id, event_id) DO NOTHING

-- An entry whose event has left the log for an archive: it is not made anew.
-- name: entry_of_archive
SELECT e.number FROM knowledge_entries e WHERE NOT EXISTS (SELECT 1 FROM events v WHERE v.id = e.event_id) LIMIT 1

-- name: clear_entries
DELETE FROM knowledge_entries

-- name: clear_words
DELETE FROM knowledge_words

-- name: clear_counts
DELETE FROM knowledge_counts

-- name: clear_files
DELETE FROM knowledge_files

-- name: clear_relations
DELETE FROM knowledge_relations

-- name: clear_mentions
DELETE FROM knowledge_uses WHERE event_id <> ''

-- name: clear_readers
DELETE FROM knowledge_readers

-- name: clear_audiences
DELETE FROM knowledge_audiences

-- name: clear_logged_words
DELETE FROM knowledge_words WHERE number IN (SELECT e.number FROM knowledge_entries e JOIN events v ON v.id = e.event_id)

-- name: clear_logged_files
DELETE FROM knowledge_files WHERE number IN (SELECT e.number FROM knowledge_entries e JOIN events v ON v.id = e.event_id)

-- name: clear_logged_relations
DELETE FROM knowledge_relations
WHERE source IN (SELECT e.number FROM knowledge_entries e JOIN events v ON v.id = e.event_id)

-- name: clear_logged_mentions
DELETE FROM knowledge_uses WHERE event_id <> '' AND event_id IN (SELECT v.id FROM events v)

-- name: open_closed_by_logged
UPDATE knowledge_entries SET valid_to = NULL, closed_by = NULL
WHERE closed_by IN (SELECT e.id FROM knowledge_entries e JOIN events v ON v.id = e.event_id)

-- name: clear_logged_entries
DELETE FROM knowledge_entries WHERE event_id IN (SELECT v.id FROM events v)

-- name: count_logged_down
UPDATE knowledge_counts SET entries = knowledge_counts.entries - gone.entries FROM (
  SELECT word, audience, COUNT(*) AS entries FROM (
    SELECT w.word, w.audience FROM knowledge_words w JOIN knowledge_entries e ON e.number = w.number
      JOIN events v ON v.id = e.event_id
    UNION ALL SELECT '', e.audience FROM knowledge_entries e JOIN events v ON v.id = e.event_id
    UNION ALL SELECT '@' || e.agent_id, e.audience FROM knowledge_entries e JOIN events v ON v.id = e.event_id) o
  GROUP BY word, audience) gone
WHERE knowledge_counts.word = gone.word AND knowledge_counts.audience = gone.audience
