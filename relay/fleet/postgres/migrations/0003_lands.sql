-- What a member tells of landing. `main`: shared | no_clone | no_remote | own, '' = it has not told; `cannot_land`: why it
-- can land nothing, '' = it can, NULL = it has not told.
ALTER TABLE fleet_members ADD COLUMN main TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE fleet_members ADD COLUMN cannot_land TEXT COLLATE "C";

-- As before, and: who cannot land, or has not told, takes no lead that is free while a live member says that it can. A lead that was given up
-- (`until` 0) is free for its member too, and begins anew then.
CREATE OR REPLACE FUNCTION relay_fleet_beat(
  own text, mine bigint, offset_s double precision, lease_s double precision,
  OUT beats boolean, OUT leader text, OUT epoch bigint, OUT leads boolean, OUT now double precision
) LANGUAGE plpgsql AS $$
DECLARE
  lead fleet_leader;
  lands boolean;
BEGIN
  now := relay_now();
  UPDATE fleet_members m SET heartbeat_at = now, clock_offset_s = offset_s
  WHERE m.name = own AND m.incarnation = mine AND m.state = 'live'
  RETURNING coalesce(m.cannot_land = '', false) INTO lands;
  beats := FOUND;
  IF beats THEN
    UPDATE fleet_leader l SET member = own, incarnation = mine, until = now + lease_s,
      epoch = l.epoch + CASE WHEN l.member = own AND l.incarnation = mine AND l.until > 0 THEN 0 ELSE 1 END
    WHERE (l.member = own AND l.incarnation = mine AND l.until > 0) OR (l.until < now AND (lands OR NOT EXISTS (
      SELECT FROM fleet_members o
      WHERE o.name <> own AND o.state = 'live' AND o.cannot_land = '' AND o.heartbeat_at >= now - lease_s)));
  END IF;
  SELECT l.* INTO lead FROM fleet_leader l;
  leader := CASE WHEN lead.until >= now THEN lead.member ELSE '' END;
  epoch := lead.epoch;
  leads := beats AND lead.member = own AND lead.incarnation = mine AND lead.until >= now;
END $$;
