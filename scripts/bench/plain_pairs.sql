-- The rows that an acquire and a release write, and nothing looked up: the floor of `coordination_postgres.py`. Each
-- event and each lane is like the last ones that relay wrote here.
CREATE TABLE bench_said AS
  SELECT DISTINCT ON (type) * FROM events WHERE type IN ('lock.acquired', 'lock.released') ORDER BY type, pos DESC;
CREATE TABLE bench_lane AS SELECT * FROM lanes ORDER BY seq DESC LIMIT 1;

CREATE FUNCTION bench_begin(who text) RETURNS void LANGUAGE sql AS $$
  INSERT INTO lanes SELECT (l).* FROM (
    SELECT jsonb_populate_record(b, jsonb_build_object('session', who, 'lane', who, 'seq', 0)) AS l FROM bench_lane b
  ) AS made
$$;

CREATE FUNCTION bench_event(what text, who text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  new_id text := replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', '');
  number bigint;
BEGIN
  UPDATE lanes l SET seq = l.seq + 1, head = new_id, clock = l.clock WHERE l.session = who AND l.lane = who
  RETURNING l.seq INTO number;
  INSERT INTO events (id, v, session, lane, seq, type, prev, parents, causal_deps, clock, outputs, at)
  SELECT new_id, s.v, who, who, number, s.type, s.prev, s.parents, s.causal_deps, s.clock, s.outputs, s.at
  FROM bench_said s WHERE s.type = what;
END $$;

CREATE FUNCTION bench_acquire(who text, file text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE token bigint;
BEGIN
  INSERT INTO counters AS c (name, value) VALUES ('bench', 1)
  ON CONFLICT (name) DO UPDATE SET value = c.value + 1 RETURNING c.value INTO token;
  INSERT INTO file_locks
    (key, kind, agent_id, session_id, path, mode, fencing_token, reason, acquired_at, renewed_at, expires_at, shape)
  VALUES (file, 'path', who, who, file, 'exclusive', token, 'bench', 1e9, 1e9, 1e9,
    to_jsonb(string_to_array(file, '/')));
  PERFORM bench_event('lock.acquired', who);
END $$;

CREATE FUNCTION bench_release(who text, file text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM file_locks f WHERE f.key = file AND f.kind = 'path' AND f.agent_id = who AND f.session_id = who;
  PERFORM bench_event('lock.released', who);
END $$;
