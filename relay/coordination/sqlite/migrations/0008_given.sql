-- `given`: to whom a person gave the task, the last behind: [message id, its number, agent]. `source`: the address of
-- the issue that the task was imported from; `source_sha`: the digest of its text as of that import, by which a text
-- that nobody changed here is known.
ALTER TABLE work_queue ADD COLUMN given TEXT NOT NULL DEFAULT '[]';
ALTER TABLE work_queue ADD COLUMN source TEXT;
ALTER TABLE work_queue ADD COLUMN source_sha TEXT;
CREATE UNIQUE INDEX work_by_source ON work_queue (source) WHERE source IS NOT NULL;
