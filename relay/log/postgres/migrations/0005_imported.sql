-- What the row of an event that another replica recorded does not say: whose it is, and the SHA-256 of the payloads that
-- stayed there (NULL: the payload is here, or there is none).
CREATE TABLE imported_events (
  pos bigint PRIMARY KEY,
  origin text COLLATE "C" NOT NULL,
  inputs text COLLATE "C",
  outputs text COLLATE "C"
);

-- Causes of imported events that stayed where they were recorded, since their lanes are private.
CREATE TABLE event_stubs (
  id text COLLATE "C" PRIMARY KEY,
  session text COLLATE "C" NOT NULL,
  lane text COLLATE "C" NOT NULL,
  seq bigint NOT NULL,
  parents text COLLATE "C" NOT NULL
);
