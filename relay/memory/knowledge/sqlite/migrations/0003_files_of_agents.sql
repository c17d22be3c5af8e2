-- Whose the entry is and of which kind, so that those of an agent and a kind are looked for in this table alone.
ALTER TABLE knowledge_files ADD COLUMN agent_id TEXT NOT NULL DEFAULT '';
ALTER TABLE knowledge_files ADD COLUMN kind TEXT NOT NULL DEFAULT '';
UPDATE knowledge_files SET agent_id = e.agent_id, kind = e.kind FROM knowledge_entries e WHERE e.number = knowledge_files.number;
