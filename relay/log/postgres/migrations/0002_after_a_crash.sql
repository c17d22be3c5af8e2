-- What a crash of the server must not give twice. Commits are asynchronous, so a crash loses the last of them though
-- they were acknowledged: a lock is gone, and the counter of fencing tokens and the log's `pos` would go back with it.
-- A token that two holders have fences nobody off, and who reads on from a `pos` that is given again misses events.
--
-- `since_crash` is UNLOGGED: the server empties it when it recovers from a crash (also at the promotion of a standby and
-- in a base backup), and never else. What stands in it is the truth; where nothing stands, there was a crash.
--   fence   the last token given, and up to where tokens may be given. `counters` has the end of that block, which
--           is on disk before its first token is given, so behind a crash tokens go on above all that were given.
--   events  there was no crash: `pos` goes on where it stood.

CREATE UNLOGGED TABLE since_crash (name text COLLATE "C" PRIMARY KEY, value bigint NOT NULL, upto bigint NOT NULL);
INSERT INTO since_crash (name, value, upto) VALUES ('events', 0, 0);

-- The first token of a new block. Once in 1000 tokens it costs the one who draws it a flush.
CREATE FUNCTION relay_next_block() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE number bigint;
BEGIN
  INSERT INTO counters (name, value) VALUES ('fence', 0) ON CONFLICT (name) DO NOTHING;
  PERFORM FROM counters c WHERE c.name = 'fence' FOR UPDATE;
  -- Who waited here for another goes on in the block that the other one began.
  UPDATE since_crash s SET value = s.value + 1 WHERE s.name = 'fence' AND s.value < s.upto
  RETURNING s.value INTO number;
  IF number IS NOT NULL THEN RETURN number; END IF;
  PERFORM set_config('synchronous_commit', 'on', true);
  UPDATE counters c SET value = c.value + 1000 WHERE c.name = 'fence' RETURNING c.value - 999 INTO number;
  INSERT INTO since_crash AS s (name, value, upto) VALUES ('fence', number, number + 999)
  ON CONFLICT (name) DO UPDATE SET value = excluded.value, upto = excluded.upto;
  RETURN number;
END $$;

-- The next number of one of the room's counters.
CREATE OR REPLACE FUNCTION relay_next_number(counter text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE number bigint;
BEGIN
  IF counter = 'fence' THEN
    UPDATE since_crash s SET value = s.value + 1 WHERE s.name = 'fence' AND s.value < s.upto
    RETURNING s.value INTO number;
    RETURN coalesce(number, relay_next_block());
  END IF;
  INSERT INTO counters AS c (name, value) VALUES (counter, 1)
  ON CONFLICT (name) DO UPDATE SET value = c.value + 1 RETURNING c.value INTO number;
  RETURN number;
END $$;

-- The token that was given last, or behind a crash the last that can have been; the next is one more.
CREATE FUNCTION relay_last_token() RETURNS bigint LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
BEGIN
  RETURN coalesce((SELECT s.value FROM since_crash s WHERE s.name = 'fence'),
    (SELECT c.value FROM counters c WHERE c.name = 'fence'), 0);
END $$;

-- What every connection of relay asks first, since a crash ends all: behind one, `pos` leaps over what was given. The
-- server writes at least every 3 x wal_writer_delay (30 s at most), in which no server appends a million events.
CREATE FUNCTION relay_after_crash() RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  IF EXISTS (SELECT FROM since_crash s WHERE s.name = 'events') THEN RETURN; END IF;
  PERFORM relay_lock_order();
  IF EXISTS (SELECT FROM since_crash s WHERE s.name = 'events') THEN RETURN; END IF;
  PERFORM set_config('synchronous_commit', 'on', true);
  PERFORM setval(pg_get_serial_sequence('events', 'pos'),
    nextval(pg_get_serial_sequence('events', 'pos')) + 1000000);
  INSERT INTO since_crash (name, value, upto) VALUES ('events', 0, 0);
END $$;

DO $$ BEGIN
  -- What runs with the owner's rights looks into this schema only.
  EXECUTE format('ALTER FUNCTION relay_last_token() SET search_path = %I, pg_temp', current_schema());
  EXECUTE format('ALTER FUNCTION relay_after_crash() SET search_path = %I, pg_temp', current_schema());
END $$;
