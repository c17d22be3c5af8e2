-- Two sessions of one agent may name the same path, and each takes back its own word only.
ALTER TABLE declared_intents DROP CONSTRAINT declared_intents_pkey;
ALTER TABLE declared_intents ADD PRIMARY KEY (agent, path, source, session);
