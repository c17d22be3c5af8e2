-- 1: the entry lands as one commit, without a merge commit.
ALTER TABLE landing_entries ADD COLUMN squash BIGINT NOT NULL DEFAULT 0;
