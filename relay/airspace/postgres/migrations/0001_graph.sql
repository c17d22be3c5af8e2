-- What was read out of one file, under git's hash of its content: a cache, which may be emptied at any time.
-- `facts` and `symbols` are zlib'd JSON (relay/airspace/graph/facts.py). `used_at`: Unix seconds.
CREATE TABLE graph_files (
  blob TEXT COLLATE "C" NOT NULL,
  language TEXT COLLATE "C" NOT NULL,
  extractor BIGINT NOT NULL,
  facts BYTEA NOT NULL,
  symbols BYTEA NOT NULL,
  trouble TEXT COLLATE "C" NOT NULL DEFAULT '',
  used_at DOUBLE PRECISION NOT NULL,
  PRIMARY KEY (blob, language)
);
CREATE INDEX graph_files_by_use ON graph_files (used_at);

-- The graph as it stood when it was last built from scratch. `digest`: of all paths with their hashes; `edges`
-- and `good` (the last content that parsed of a file that does not) are zlib'd JSON.
CREATE TABLE graph_snapshots (
  repo TEXT COLLATE "C" PRIMARY KEY,
  extractor BIGINT NOT NULL,
  digest TEXT COLLATE "C" NOT NULL,
  edges BYTEA NOT NULL,
  good BYTEA NOT NULL,
  saved_at DOUBLE PRECISION NOT NULL
);
