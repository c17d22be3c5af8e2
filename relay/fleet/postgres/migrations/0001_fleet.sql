-- The relays of this room's database (docs/fleet.md). state: live | away | left. `holder`: how the running daemon signs
-- jobs. A new daemon of a member has the next incarnation. Times are the server's.
CREATE TABLE fleet_members (
  name TEXT COLLATE "C" PRIMARY KEY,
  incarnation BIGINT NOT NULL,
  holder TEXT COLLATE "C" NOT NULL,
  state TEXT COLLATE "C" NOT NULL,
  host TEXT COLLATE "C" NOT NULL,
  folder TEXT COLLATE "C" NOT NULL,
  port BIGINT NOT NULL,
  url TEXT COLLATE "C" NOT NULL DEFAULT '',
  version TEXT COLLATE "C" NOT NULL,
  protocol BIGINT NOT NULL,
  fits BIGINT NOT NULL,
  agents TEXT COLLATE "C" NOT NULL DEFAULT '[]',
  joined_at DOUBLE PRECISION NOT NULL,
  heartbeat_at DOUBLE PRECISION NOT NULL,
  clock_offset_s DOUBLE PRECISION NOT NULL DEFAULT 0,
  clock_said INTEGER NOT NULL DEFAULT 0
);

-- Who does what one member must do alone: one row. An epoch belongs to one daemon's one time as the leader.
CREATE TABLE fleet_leader (
  id BIGINT PRIMARY KEY,
  member TEXT COLLATE "C" NOT NULL,
  incarnation BIGINT NOT NULL,
  epoch BIGINT NOT NULL,
  until DOUBLE PRECISION NOT NULL
);
INSERT INTO fleet_leader VALUES (1, '', 0, 0, 0);

-- A leader's transaction calls it behind the room's lock. Whoever takes over takes that lock once before it begins.
CREATE FUNCTION relay_fence(mine bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM fleet_leader l WHERE l.epoch = mine) THEN
    RAISE EXCEPTION 'another member leads by now' USING ERRCODE = 'RY001';
  END IF;
END $$;

-- What was said in the room stands in every member's file a moment later. So no failover of the server may take it back:
-- a member would read its own line as another one's.
CREATE FUNCTION relay_message_lasts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM set_config('synchronous_commit', 'on', true);
  RETURN NULL;
END $$;
CREATE TRIGGER lasts BEFORE INSERT ON messages FOR EACH STATEMENT EXECUTE FUNCTION relay_message_lasts();

-- A sign of life: the member's row, and the lead where it is this member's or free. `beats` false: nothing of this
-- member's was changed, since it counts as away, or another daemon of its name has joined. It takes no lock of the room's:
-- a process that hangs within a transaction makes nobody look dead.
CREATE FUNCTION relay_fleet_beat(
  own text, mine bigint, offset_s double precision, lease_s double precision,
  OUT beats boolean, OUT leader text, OUT epoch bigint, OUT leads boolean, OUT now double precision
) LANGUAGE plpgsql AS $$
DECLARE
  lead fleet_leader;
BEGIN
  now := relay_now();
  UPDATE fleet_members m SET heartbeat_at = now, clock_offset_s = offset_s
  WHERE m.name = own AND m.incarnation = mine AND m.state = 'live';
  beats := FOUND;
  IF beats THEN
    UPDATE fleet_leader l SET member = own, incarnation = mine, until = now + lease_s,
      epoch = l.epoch + CASE WHEN l.member = own AND l.incarnation = mine THEN 0 ELSE 1 END
    WHERE l.until < now OR (l.member = own AND l.incarnation = mine);
  END IF;
  SELECT l.* INTO lead FROM fleet_leader l;
  leader := CASE WHEN lead.until >= now THEN lead.member ELSE '' END;
  epoch := lead.epoch;
  leads := beats AND lead.member = own AND lead.incarnation = mine;
END $$;
