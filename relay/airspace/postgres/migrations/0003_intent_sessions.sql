-- An intent that an agent declared by its own call belongs to its session and ends with it ('' = to none).
ALTER TABLE declared_intents ADD COLUMN session TEXT COLLATE "C" NOT NULL DEFAULT '';
