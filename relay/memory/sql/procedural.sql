-- name: skills_of_type
SELECT name, task_type, agent_id, uses, successes, steps, steps_at FROM memory_procedural
WHERE task_type = :task_type ORDER BY name, agent_id

-- name: count_use
INSERT INTO memory_procedural (task_type, name, agent_id, uses, successes, steps, steps_at, updated_at)
VALUES (:task_type, :name, :agent, :uses, :successes, :steps, :steps_at, :now)
ON CONFLICT (task_type, name, agent_id) DO UPDATE SET uses = memory_procedural.uses + excluded.uses,
  successes = memory_procedural.successes + excluded.successes,
  steps = COALESCE(excluded.steps, memory_procedural.steps),
  steps_at = COALESCE(excluded.steps_at, memory_procedural.steps_at), updated_at = excluded.updated_at

-- name: task_use
SELECT name, task_type, agent_id, success FROM memory_procedural_uses WHERE task_id = :task_id AND name = :name

-- name: task_uses
SELECT name, task_type, agent_id, success FROM memory_procedural_uses WHERE task_id = :task_id ORDER BY name

-- name: put_task_use
INSERT INTO memory_procedural_uses (task_id, name, task_type, agent_id, success, at)
VALUES (:task_id, :name, :task_type, :agent, :success, :now)
ON CONFLICT (task_id, name) DO UPDATE SET agent_id = excluded.agent_id, success = excluded.success, at = excluded.at

-- name: skill_text
SELECT summary, body FROM memory_procedural_texts WHERE task_type = :task_type AND name = :name

-- name: put_skill_text
INSERT INTO memory_procedural_texts (task_type, name, summary_count, body_count, summary, body)
VALUES (:task_type, :name, :summary_count, :body_count, :summary, :body)
ON CONFLICT (task_type, name) DO UPDATE SET summary_count = excluded.summary_count, body_count = excluded.body_count,
  summary = excluded.summary, body = excluded.body

-- name: forget_skill_words
DELETE FROM memory_procedural_words WHERE task_type = :task_type AND name = :name
