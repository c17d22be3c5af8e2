-- Vectors of memories by the model that made them: numbers of four bytes, little-endian, together of length 1.
CREATE TABLE memory_vectors (
  model TEXT NOT NULL,
  number INTEGER NOT NULL,
  vector BLOB NOT NULL,
  PRIMARY KEY (model, number)
);
CREATE INDEX memory_vectors_of ON memory_vectors (number);
