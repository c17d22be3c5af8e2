-- The one log, as relay/log/sqlite/migrations/0001_log.sql has it; here also for several writers at a time.
--
-- Commit order. A reader's cursor is `pos`, so no event may become visible behind one that was visible before it.
-- Two things keep that:
--   1. A general writer holds the room's lock alone (exclusive), from its first act to the end of its commit.
--      A function of the database that is a whole transaction by itself holds it shared (relay_lock_shared), so
--      several of those run side by side.
--   2. Whoever inserts into `events` first takes the order lock, in a trigger that fires once a statement, before
--      the statement draws its `pos`. It is held until the commit is visible. So pos is drawn, and becomes visible,
--      in one and the same order, whoever writes.
-- (A snapshot's xmax would not do instead: it is the latest *ended* transaction plus one, and says nothing of an
-- older one that has drawn a pos and still runs under a higher id.)
-- A function appends its events last: what it waits for after that, everybody who appends waits for.
--
-- Texts are compared by their bytes (COLLATE "C"), as SQLite does, whatever the database's locale is.

CREATE FUNCTION relay_now() RETURNS double precision LANGUAGE sql VOLATILE AS
$$ SELECT extract(epoch FROM clock_timestamp())::double precision $$;

-- The room's lock, shared. The numbers are ROOM_LOCK and ORDER_LOCK in relay/log/postgres_store.py.
CREATE FUNCTION relay_lock_shared() RETURNS void LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_advisory_xact_lock_shared(1919249529, hashtext(current_schema())); END $$;

CREATE FUNCTION relay_lock_order() RETURNS void LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_advisory_xact_lock(1919249530, hashtext(current_schema())); END $$;

CREATE TABLE events (
  pos bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id text COLLATE "C" NOT NULL UNIQUE,
  v integer NOT NULL,
  session text COLLATE "C" NOT NULL,
  lane text COLLATE "C" NOT NULL,
  seq bigint NOT NULL,
  type text COLLATE "C" NOT NULL,
  prev text COLLATE "C",
  parents text COLLATE "C" NOT NULL,
  causal_deps text COLLATE "C" NOT NULL,
  clock text COLLATE "C" NOT NULL,
  role text COLLATE "C",
  branch text COLLATE "C",
  snapshot text COLLATE "C",
  file_touches text COLLATE "C",
  inputs text COLLATE "C",
  outputs text COLLATE "C",
  source_key text COLLATE "C" UNIQUE,
  at text COLLATE "C" NOT NULL,
  UNIQUE (session, lane, seq)
);
CREATE INDEX events_by_type ON events (type, pos);

-- It sends no NOTIFY: that would cost a function as much again as its own work, and a store sends one for many.
CREATE FUNCTION relay_events_in_order() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(1919249530, hashtext(current_schema()));
  RETURN NULL;
END $$;
CREATE TRIGGER in_order BEFORE INSERT ON events FOR EACH STATEMENT EXECUTE FUNCTION relay_events_in_order();

CREATE TABLE lanes (
  session text COLLATE "C" NOT NULL,
  lane text COLLATE "C" NOT NULL,
  seq bigint NOT NULL,
  head text COLLATE "C" NOT NULL,
  clock text COLLATE "C" NOT NULL,
  short integer NOT NULL DEFAULT 0,
  parent text COLLATE "C",
  depth integer NOT NULL DEFAULT 0,
  open_children integer NOT NULL DEFAULT 0,
  folded integer NOT NULL DEFAULT 0,
  PRIMARY KEY (session, lane)
);

CREATE TABLE lane_exits (
  lane text COLLATE "C" NOT NULL,
  seq bigint NOT NULL,
  into_lane text COLLATE "C" NOT NULL,
  at bigint NOT NULL,
  PRIMARY KEY (lane, seq, into_lane, at)
);

CREATE TABLE followers (
  name text COLLATE "C" PRIMARY KEY,
  pos bigint NOT NULL,
  failing_event text COLLATE "C",
  failures integer NOT NULL DEFAULT 0
);

CREATE TABLE parked_events (
  follower text COLLATE "C" NOT NULL,
  event_id text COLLATE "C" NOT NULL,
  error text COLLATE "C" NOT NULL,
  at text COLLATE "C" NOT NULL,
  PRIMARY KEY (follower, event_id)
);

CREATE TABLE counters (name text COLLATE "C" PRIMARY KEY, value bigint NOT NULL);

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
CREATE FUNCTION relay_next_number(counter text) RETURNS bigint LANGUAGE plpgsql AS $$
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

CREATE TABLE settings (name text COLLATE "C" PRIMARY KEY, value text COLLATE "C" NOT NULL);

-- relay.log.events.dumps of a list of texts: to_json escapes a text as Python's encoder does.
CREATE FUNCTION relay_json_list(items text[]) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF coalesce(cardinality(items), 0) = 0 THEN RETURN '[]'; END IF;
  RETURN (SELECT '[' || string_agg(to_json(item)::text, ',' ORDER BY place) || ']'
          FROM unnest(items) WITH ORDINALITY AS i (item, place));
END $$;

-- The clock of the next event of a lane (relay.log.events._clock_of): the maximum over the lane's own and those
-- of all that was shown, without short lanes' own entries (they leave exits) and without folded lanes whose
-- folding was seen; plus this tick. As text, with its keys in order.
CREATE FUNCTION relay_clock_of(own lanes, lane_key text, next_seq bigint, shown text[]) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  wanted text[];
  missing text;
  made text;
BEGIN
  IF cardinality(shown) > 0 THEN
    SELECT array_agg(DISTINCT s) INTO wanted FROM unnest(shown) AS s WHERE s IS DISTINCT FROM own.head;
  END IF;
  IF wanted IS NULL AND own.seq IS NULL THEN
    RETURN '{' || to_json(lane_key) || ':' || next_seq || '}';
  END IF;
  IF wanted IS NULL THEN
    RETURN (
      SELECT '{' || string_agg(to_json(key)::text || ':' || value, ',' ORDER BY key COLLATE "C") || '}' FROM (
        SELECT c.key, c.value FROM json_each_text(own.clock::json) c WHERE c.key <> lane_key
        UNION ALL SELECT lane_key, next_seq::text
      ) AS entries);
  END IF;
  SELECT string_agg(w, ', ' ORDER BY w COLLATE "C") INTO missing FROM unnest(wanted) AS w
  WHERE NOT EXISTS (SELECT FROM events e WHERE e.id = w);
  IF missing IS NOT NULL THEN
    RAISE EXCEPTION 'unknown events named as causes: %', missing USING ERRCODE = 'RL001';
  END IF;
  INSERT INTO lane_exits (lane, seq, into_lane, at)
  SELECT e.session || '/' || e.lane, e.seq, lane_key, next_seq
  FROM events e JOIN lanes l ON l.session = e.session AND l.lane = e.lane
  WHERE e.id = ANY (wanted) AND l.short = 1 AND e.session || '/' || e.lane <> lane_key
  ON CONFLICT DO NOTHING;
  WITH entries AS (
    SELECT c.key, c.value::bigint AS count FROM json_each_text(coalesce(own.clock, '{}')::json) c
    UNION ALL
    SELECT c.key, c.value::bigint FROM events e
    JOIN lanes l ON l.session = e.session AND l.lane = e.lane
    CROSS JOIN LATERAL json_each_text(e.clock::json) c
    WHERE e.id = ANY (wanted) AND (l.short = 0 OR c.key <> e.session || '/' || e.lane)
  ), merged AS (
    SELECT key, max(count) AS count FROM entries WHERE key <> lane_key GROUP BY key
    UNION ALL SELECT lane_key, next_seq
  ), kept AS (
    SELECT m.key, m.count FROM merged m
    WHERE m.key = lane_key OR NOT EXISTS (
      SELECT FROM lanes l JOIN lane_exits x ON x.lane = m.key AND x.seq = l.seq
      JOIN merged seen ON seen.key = x.into_lane AND seen.count >= x.at
      WHERE l.session = split_part(m.key, '/', 1) AND l.lane = substr(m.key, strpos(m.key, '/') + 1)
        AND l.folded = 1)
  )
  SELECT '{' || string_agg(to_json(key)::text || ':' || count, ',' ORDER BY key COLLATE "C") || '}'
  INTO made FROM kept;
  RETURN made;
END $$;

-- relay.log.events.append, for functions of the database: the same body, the same hash. `new_inputs` and `new_outputs` are
-- JSON texts, stored as they are. With a source key that is there already it writes nothing and gives what is.
CREATE FUNCTION relay_append_event(
  new_type text,
  new_session text,
  new_lane text,
  new_inputs text DEFAULT NULL,
  new_outputs text DEFAULT NULL,
  new_parents text[] DEFAULT '{}',
  new_causal_deps text[] DEFAULT '{}',
  new_role text DEFAULT NULL,
  new_branch text DEFAULT NULL,
  new_snapshot text DEFAULT NULL,
  new_file_touches text[] DEFAULT NULL,
  new_source_key text DEFAULT NULL,
  new_at text DEFAULT NULL,
  is_short boolean DEFAULT false
) RETURNS events LANGUAGE plpgsql AS $$
DECLARE
  at_lane lanes;
  made events;
BEGIN
  PERFORM relay_lock_order();
  IF new_source_key IS NOT NULL THEN
    SELECT * INTO made FROM events WHERE source_key = new_source_key;
    IF FOUND THEN RETURN made; END IF;
  END IF;
  SELECT * INTO at_lane FROM lanes WHERE session = new_session AND lane = new_lane;
  IF at_lane.folded = 1 THEN
    RAISE EXCEPTION 'lane %/% was folded away; spawn a new one', new_session, new_lane USING ERRCODE = 'RL001';
  END IF;
  made.v := 1;
  made.session := new_session;
  made.lane := new_lane;
  made.seq := coalesce(at_lane.seq, 0) + 1;
  made.type := new_type;
  made.prev := at_lane.head;
  IF cardinality(new_parents) > 1 THEN
    SELECT array_agg(parent ORDER BY place) INTO new_parents FROM (
      SELECT parent, min(place) AS place FROM unnest(new_parents) WITH ORDINALITY AS p (parent, place)
      GROUP BY parent) AS once;
  END IF;
  made.parents := relay_json_list(new_parents);
  made.causal_deps := relay_json_list(new_causal_deps);
  made.clock := relay_clock_of(at_lane, new_session || '/' || new_lane, made.seq, new_parents || new_causal_deps);
  made.role := new_role;
  made.branch := new_branch;
  made.snapshot := new_snapshot;
  made.file_touches := CASE WHEN new_file_touches IS NOT NULL THEN relay_json_list(new_file_touches) END;
  made.inputs := new_inputs;
  made.outputs := new_outputs;
  made.source_key := new_source_key;
  made.at := coalesce(
    new_at, to_char(to_timestamp(relay_now()) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'));
  made.id := relay_event_id(made);
  INSERT INTO events (id, v, session, lane, seq, type, prev, parents, causal_deps, clock, role, branch, snapshot,
    file_touches, inputs, outputs, source_key, at)
  VALUES (made.id, made.v, made.session, made.lane, made.seq, made.type, made.prev, made.parents,
    made.causal_deps, made.clock, made.role, made.branch, made.snapshot, made.file_touches, made.inputs,
    made.outputs, made.source_key, made.at)
  RETURNING pos INTO made.pos;
  INSERT INTO lanes (session, lane, seq, head, clock, short)
  VALUES (made.session, made.lane, made.seq, made.id, made.clock, is_short::integer)
  ON CONFLICT (session, lane) DO UPDATE SET seq = excluded.seq, head = excluded.head, clock = excluded.clock;
  RETURN made;
END $$;

-- relay.log.events.event_id: the SHA-256 of the canonical body, its keys in order, what is absent left out.
CREATE FUNCTION relay_event_id(one events) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN encode(sha256(convert_to(
    '{"at":' || to_json(one.at)
    || coalesce(',"branch":' || to_json(one.branch), '')
    || CASE WHEN one.causal_deps <> '[]' THEN ',"causal_deps":' || one.causal_deps ELSE '' END
    || ',"clock":' || one.clock
    || coalesce(',"file_touches":' || one.file_touches, '')
    || coalesce(',"inputs":"' || encode(sha256(convert_to(one.inputs, 'UTF8')), 'hex') || '"', '')
    || ',"lane":' || to_json(one.lane)
    || coalesce(',"outputs":"' || encode(sha256(convert_to(one.outputs, 'UTF8')), 'hex') || '"', '')
    || ',"parents":' || one.parents
    || coalesce(',"prev":' || to_json(one.prev), '')
    || coalesce(',"role":' || to_json(one.role), '')
    || ',"seq":' || one.seq
    || ',"session":' || to_json(one.session)
    || coalesce(',"snapshot":' || to_json(one.snapshot), '')
    || coalesce(',"source_key":' || to_json(one.source_key), '')
    || ',"type":' || to_json(one.type)
    || ',"v":' || one.v || '}', 'UTF8')), 'hex');
END $$;
