-- Who pinned an entry, and the number of the entry that did.
ALTER TABLE messages ADD COLUMN pinned_by TEXT;
ALTER TABLE messages ADD COLUMN pinned_in INTEGER;
CREATE INDEX messages_pinned ON messages (pinned_in) WHERE pinned_in IS NOT NULL;
