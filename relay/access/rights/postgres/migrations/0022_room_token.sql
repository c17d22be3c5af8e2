-- The room's token, which every relay of this database gives the programs of its own machine. Its text, not its digest:
-- each of them writes it into a file. So no agent's role may read it, nor may anybody but relay's own.
CREATE TABLE room_token (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  token text COLLATE "C" NOT NULL,
  set_by text COLLATE "C" NOT NULL,
  set_at double precision NOT NULL
);
REVOKE ALL ON room_token FROM PUBLIC;
SELECT relay_secure();
