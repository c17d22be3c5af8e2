-- The first entry of the thread that an entry is in, by its id; NULL: it answers none.
ALTER TABLE messages ADD COLUMN thread TEXT COLLATE "C";
CREATE INDEX messages_replies ON messages (in_reply_to);
WITH RECURSIVE found(id, root) AS (
  SELECT m.id, m.id FROM messages m WHERE NOT EXISTS (SELECT 1 FROM messages r WHERE r.id = m.in_reply_to)
  UNION ALL
  SELECT m.id, f.root FROM found f JOIN messages m ON m.in_reply_to = f.id
)
UPDATE messages SET thread = found.root FROM found WHERE found.id = messages.id AND found.id <> found.root;
DROP INDEX messages_replies;
CREATE INDEX messages_by_thread ON messages (thread, number) WHERE thread IS NOT NULL;
