-- name: put_skill_words
INSERT INTO memory_procedural_words (word, task_type, name)
SELECT w, :task_type, :name FROM jsonb_array_elements_text(CAST(:words AS jsonb)) AS w ORDER BY w

-- name: skills_with
SELECT word, task_type, name FROM memory_procedural_words
WHERE word = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:words AS jsonb))))
ORDER BY word, task_type, name LIMIT :limit

-- name: skill_texts
SELECT t.task_type, t.name, t.summary_count, t.body_count, t.summary, t.body,
  (SELECT MAX(p.updated_at) FROM memory_procedural p WHERE p.task_type = t.task_type AND p.name = t.name) AS used_at
FROM jsonb_array_elements(CAST(:skills AS jsonb)) AS s JOIN memory_procedural_texts t
  ON t.task_type = s ->> 0 AND t.name = s ->> 1
