-- What is the same again is looked for by how long its summary is and how it begins. The whole summary was there twice.
DROP INDEX memories_alike;
CREATE INDEX memories_alike ON memory_episodic (agent_id, length(summary), substr(summary, 1, 16), updated_at);
