-- name: all_entries
SELECT * FROM knowledge_entries

-- name: all_relations
SELECT * FROM knowledge_relations

-- name: all_audiences
SELECT * FROM knowledge_audiences

-- name: all_readers
SELECT * FROM knowledge_readers

-- name: all_words
SELECT * FROM knowledge_words

-- name: all_counts
SELECT * FROM knowledge_counts

-- name: all_files
SELECT * FROM knowledge_files

-- name: all_mentions
SELECT * FROM knowledge_uses WHERE event_id <> ''
