-- name: put_skill_words
INSERT INTO memory_procedural_words (word, task_type, name) SELECT value, :task_type, :name FROM json_each(:words)

-- name: skills_with
SELECT word, task_type, name FROM memory_procedural_words WHERE word IN (SELECT value FROM json_each(:words))
ORDER BY word, task_type, name LIMIT :limit

-- name: skill_texts
SELECT t.task_type, t.name, t.summary_count, t.body_count, t.summary, t.body,
  (SELECT MAX(p.updated_at) FROM memory_procedural p WHERE p.task_type = t.task_type AND p.name = t.name) AS used_at
FROM json_each(:skills) s JOIN memory_procedural_texts t
  ON t.task_type = json_extract(s.value, '$[0]') AND t.name = json_extract(s.value, '$[1]')
