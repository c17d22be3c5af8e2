-- What an entry was written with, where a person changed what it says: its line in the transcript file. NULL: it is
-- `body`.
ALTER TABLE messages ADD COLUMN said TEXT;
-- Search finds what an entry says now.
CREATE TRIGGER messages_indexed_anew AFTER UPDATE OF body ON messages WHEN new.body <> old.body BEGIN
  INSERT INTO messages_fts (messages_fts, rowid, body) VALUES ('delete', old.number, old.body);
  INSERT INTO messages_fts (rowid, body) VALUES (new.number, new.body);
END;
