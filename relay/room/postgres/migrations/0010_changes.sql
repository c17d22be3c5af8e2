-- What an entry was written with, where a person changed what it says: its line in the transcript file. NULL: it is
-- `body`. Search finds what an entry says now, by the index on `body`.
ALTER TABLE messages ADD COLUMN said TEXT COLLATE "C";
