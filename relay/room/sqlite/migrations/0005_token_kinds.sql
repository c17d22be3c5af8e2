-- Input that was written into a cache and input that was read from one, apart from what is new. Of the turns before
-- this step input_tokens has all three.
ALTER TABLE turns ADD COLUMN cache_write_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE turns ADD COLUMN cache_read_tokens INTEGER NOT NULL DEFAULT 0;
