-- Messages that the hop limit held back, until a person says /continue. No agents: the message opens a cycle.
CREATE TABLE held (message_id TEXT COLLATE "C" PRIMARY KEY, agents TEXT NOT NULL);
