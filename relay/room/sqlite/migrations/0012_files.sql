-- The entries that name files, by what they say now and by what they were written with.
CREATE INDEX messages_with_files ON messages (number) WHERE body LIKE '%relay-file:%' OR said LIKE '%relay-file:%';
