-- At which member of the fleet the agent's conversation is: its program keeps it on that machine. '' = not said.
ALTER TABLE agents ADD COLUMN resume_at TEXT NOT NULL DEFAULT '';
