-- Which skills have a stem in their name, task type or steps; and what a skill is weighed by: the stems of its name and
-- type (summary) and of its steps (body), each in its order with a space on either side, and how many these are.
CREATE TABLE memory_procedural_words (
  word TEXT NOT NULL,
  task_type TEXT NOT NULL,
  name TEXT NOT NULL,
  PRIMARY KEY (word, task_type, name)
) WITHOUT ROWID;
CREATE INDEX skill_words_of ON memory_procedural_words (task_type, name);
CREATE TABLE memory_procedural_texts (
  task_type TEXT NOT NULL,
  name TEXT NOT NULL,
  summary_count INTEGER NOT NULL,
  body_count INTEGER NOT NULL,
  summary TEXT NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (task_type, name)
) WITHOUT ROWID;
