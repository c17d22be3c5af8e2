-- The event of what an agent does without causes of its own, which is the most of them: relay_append_event in three
-- statements. The lane's clock differs from the one before in the lane's own entry alone, so that is changed in its text;
-- a lane that is new, or folded, goes the general way. `made_id`, `made_pos`: of the event.
CREATE FUNCTION relay_append_own(new_type text, new_session text, new_lane text, new_outputs text,
  OUT made_id text, OUT made_pos bigint) LANGUAGE plpgsql AS $$
DECLARE
  own record;
  entry text;
  entries text;
  new_clock text;
  new_at text;
BEGIN
  PERFORM pg_advisory_xact_lock(1919249530, hashtext(current_schema()));
  SELECT l.seq, l.seq + 1 AS next, l.head, l.clock INTO own FROM lanes l
  WHERE l.session = new_session AND l.lane = new_lane AND l.folded = 0;
  -- Between commas, an entry is found as a whole: within a key of the JSON text every quote has a backslash before it.
  entry := ',' || to_json(new_session || '/' || new_lane) || ':';
  entries := replace(',' || btrim(own.clock, '{}') || ',', entry || own.seq || ',', entry || own.next || ',');
  new_clock := '{' || btrim(entries, ',') || '}';
  IF own.seq IS NULL OR new_clock = own.clock THEN
    SELECT e.id, e.pos INTO made_id, made_pos
    FROM relay_append_event(new_type, new_session, new_lane, NULL, new_outputs) e;
    RETURN;
  END IF;
  new_at := to_char(to_timestamp(relay_now()) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');
  -- The body that is hashed: as in relay_event_id, of what such an event has.
  INSERT INTO events (id, v, session, lane, seq, type, prev, parents, causal_deps, clock, outputs, at)
  VALUES (encode(sha256(convert_to(
      '{"at":"' || new_at || '","clock":' || new_clock || ',"lane":' || to_json(new_lane)
      || ',"outputs":"' || encode(sha256(convert_to(new_outputs, 'UTF8')), 'hex')
      || '","parents":[],"prev":"' || own.head || '","seq":' || own.next || ',"session":' || to_json(new_session)
      || ',"type":' || to_json(new_type) || ',"v":1}', 'UTF8')), 'hex'),
    1, new_session, new_lane, own.next, new_type, own.head, '[]', '[]', new_clock, new_outputs, new_at)
  RETURNING id, pos INTO made_id, made_pos;
  UPDATE lanes l SET seq = own.next, head = made_id, clock = new_clock
  WHERE l.session = new_session AND l.lane = new_lane;
END $$;
