-- An agent's role keeps no invariant by its rows alone: who may change a task that nobody has could say that it is
-- completed, and who may insert a lock of its own could do so on a path that another holds. So relay_agent reads, and
-- writes by functions of the owner's that do what relay does; and what relay itself does for an agent runs as a role that
-- only relay takes:
--
--   relay_acting  relay's own work for one agent in one session: what relay_agent was. Who may take it may take
--                 relay_service as well, so it keeps relay's own mistakes within an agent's rows, and nobody out.
--   relay_agent   who comes to the database by another way: reads what the room shares, and calls relay_join, relay_lock,
--                 relay_unlock, relay_claim and relay_complete.
--
-- Who asks is taken from what the login cannot set: from the JWT of a gateway's session (Supabase's PostgREST logs in as
-- `authenticator`, and sets the claims that it has checked), else from the login itself. Only relay's own logins, which
-- may take the service's role, are who they say.

-- Who a login is. `agent_id` null: a gateway, of which the JWT says it. A login that is not here is the agent of its name.
CREATE TABLE agent_logins (
  login text COLLATE "C" PRIMARY KEY,
  agent_id text COLLATE "C",
  session_id text COLLATE "C"
);
INSERT INTO agent_logins (login) VALUES ('authenticator');

CREATE FUNCTION relay_asking(OUT agent text, OUT session text) LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
DECLARE
  claims json := nullif(current_setting('request.jwt.claims', true), '')::json;
  known agent_logins;
BEGIN
  IF EXISTS (SELECT FROM pg_roles r WHERE r.rolname = 'relay_service' AND pg_has_role(session_user, r.oid, 'MEMBER')) THEN
    IF claims IS NULL THEN
      agent := nullif(current_setting('relay.agent_id', true), '');
      session := nullif(current_setting('relay.session_id', true), '');
      RETURN;
    END IF;
  ELSE
    SELECT * INTO known FROM agent_logins l WHERE l.login = session_user::text;
    IF NOT FOUND OR known.agent_id IS NOT NULL THEN
      agent := coalesce(known.agent_id, session_user::text);
      session := coalesce(known.session_id, 'login:' || session_user::text);
      RETURN;
    END IF;
  END IF;
  agent := coalesce(claims->>'agent_id', claims->>'sub');
  session := claims->>'session_id';
END $$;

-- With bodies that were read when they were made: no search_path has a say in them.
CREATE OR REPLACE FUNCTION relay_me() RETURNS text LANGUAGE sql STABLE RETURN (SELECT a.agent FROM relay_asking() a);
CREATE OR REPLACE FUNCTION relay_my_session() RETURNS text LANGUAGE sql STABLE
  RETURN (SELECT a.session FROM relay_asking() a);
DROP FUNCTION relay_claim(text);
DROP FUNCTION relay_claims();

-- For the functions below: who asks, who has to be somebody. What is asked next is done with the owner's rights.
CREATE FUNCTION relay_ask(OUT agent text, OUT session text) LANGUAGE plpgsql AS $$
BEGIN
  SELECT a.agent, a.session INTO agent, session FROM relay_asking() a;
  IF agent IS NULL OR session IS NULL THEN
    RAISE EXCEPTION 'nobody asks: a session needs an agent and a session (docs/postgres.md, "Roles")'
      USING ERRCODE = 'insufficient_privilege';
  END IF;
  PERFORM set_config('relay.agent_role', '', true);
END $$;

-- Begin the own session, or say that it lives: for half an hour. A session that had died lost what it held, which is
-- relay's to take back; that one is not revived here, and another is to be begun.
CREATE FUNCTION relay_join(agent_kind text DEFAULT 'sql') RETURNS double precision LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  me record := relay_ask();
  until double precision;
BEGIN
  PERFORM relay_lock_shared();
  INSERT INTO agent_sessions AS s (agent_id, id, agent_type, kind, started_at, heartbeat_at, lease_until)
  VALUES (me.agent, me.session, left(agent_kind, 100), 'given', relay_now(), relay_now(), relay_now() + 1800)
  ON CONFLICT (agent_id, id) DO UPDATE
    SET heartbeat_at = relay_now(), lease_until = greatest(s.lease_until, relay_now() + 1800)
    WHERE s.ended_at IS NULL AND s.lease_until > relay_now()
  RETURNING s.lease_until INTO until;
  IF until IS NULL THEN
    RAISE EXCEPTION 'the session %/% has ended; begin another', me.agent, me.session USING ERRCODE = 'RL002';
  END IF;
  RETURN until;
END $$;

-- Take a file, or refresh it: as relay_acquire_lock, with all that is compared made here. A path is plain: names of ASCII
-- without a wildcard. `outcome` general: it is not a plain case (relay_join first; several wait; a pattern), so nothing was
-- done; ask relay itself.
CREATE FUNCTION relay_lock(path text, mode text DEFAULT 'exclusive', ttl_s double precision DEFAULT 1800,
  why text DEFAULT NULL, OUT outcome text, OUT lock file_locks) LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  me record := relay_ask();
  names text[] := string_to_array(path, '/');
  above text[];
  got record;
BEGIN
  IF path IS NULL OR path !~ '^[A-Za-z0-9_.@+,=~ -]+(/[A-Za-z0-9_.@+,=~ -]+)*$' OR length(path) > 1024
    OR '.' = ANY (names) OR '..' = ANY (names) OR btrim(path) <> path OR mode NOT IN ('exclusive', 'shared')
    OR ttl_s IS NULL OR NOT ttl_s BETWEEN 1 AND 86400 OR length(why) > 2000 THEN
    RAISE EXCEPTION 'give a plain path from the root of the repository, a mode (exclusive, shared), and 1 to 86400 seconds'
      USING ERRCODE = 'invalid_parameter_value';
  END IF;
  above := ARRAY(SELECT array_to_string(names[1:n], '/') FROM generate_series(1, cardinality(names)) n ORDER BY n);
  got := relay_acquire_lock(me.agent, me.session, false, 1800, 1800, 'path', path,
    path, jsonb_build_array(jsonb_build_object('names', to_jsonb(names), 'file', false)), above, ARRAY[''] || above,
    path || '/', path, path || '0', mode, ttl_s, why, true);
  outcome := got.outcome;
  lock := got.lock;
END $$;

-- Free the own lock on exactly this path, of that token where one is given.
CREATE FUNCTION relay_unlock(path text, token bigint DEFAULT NULL, OUT outcome text, OUT lock file_locks)
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  me record := relay_ask();
  got record;
BEGIN
  got := relay_release_lock(me.agent, me.session, false, 1800, 1800, 'path', path, token, true);
  outcome := got.outcome;
  lock := got.lock;
END $$;

-- Claim the first task that is ready, of one of the `types` (NULL: any).
CREATE FUNCTION relay_claim(types text[] DEFAULT NULL, for_s double precision DEFAULT 1800, OUT outcome text,
  OUT task work_queue) LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  me record := relay_ask();
  got record;
BEGIN
  IF for_s IS NULL OR NOT for_s BETWEEN 1 AND 86400 THEN
    RAISE EXCEPTION 'give 1 to 86400 seconds' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  got := relay_claim_work(me.agent, me.session, false, 1800, 1800, 'sql', types, for_s, true);
  outcome := got.outcome;
  task := got.task;
END $$;

-- End the own claim, as done. `result`: JSON.
CREATE FUNCTION relay_complete(which text, result text DEFAULT NULL, token bigint DEFAULT NULL, OUT outcome text,
  OUT task work_queue) LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  me record := relay_ask();
  got record;
BEGIN
  PERFORM result::json;
  got := relay_complete_work(me.agent, me.session, false, 1800, 1800, which, 'completed', result, NULL, token, true);
  outcome := got.outcome;
  task := got.task;
END $$;

-- Make what is missing of the roles. Roles belong to the whole server: another database's relay may be making them now.
CREATE OR REPLACE FUNCTION relay_make_roles() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  name text;
  -- From 16 on a member may be one that cannot take the role: who makes a role is, at first.
  take CONSTANT text := CASE WHEN current_setting('server_version_num')::integer >= 160000 THEN 'SET' ELSE 'MEMBER' END;
BEGIN
  FOREACH name IN ARRAY ARRAY['relay_service', 'relay_acting', 'relay_agent', 'relay_anon'] LOOP
    BEGIN
      IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) THEN
        EXECUTE format('CREATE ROLE %I NOLOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE', name);
      END IF;
    EXCEPTION
      WHEN duplicate_object OR unique_violation OR insufficient_privilege THEN NULL;
    END;
    BEGIN
      IF EXISTS (SELECT FROM pg_roles WHERE rolname = name) AND NOT pg_has_role(current_user, name, take) THEN
        EXECUTE format('GRANT %I TO CURRENT_USER', name);
      END IF;
    EXCEPTION
      -- internal_error: "tuple concurrently updated", by who grants just now.
      WHEN insufficient_privilege OR internal_error THEN NULL;
    END;
  END LOOP;
END $$;

-- Row-level security on every table of ours, with all policies and grants made anew. False, and nothing done, where
-- a role is missing.
CREATE OR REPLACE FUNCTION relay_secure() RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  schema CONSTANT text := current_schema();
  mine CONSTANT text := '(agent_id = relay_me())';
  of_session CONSTANT text := '(agent_id = relay_me() AND session_id = relay_my_session())';
  free CONSTANT text := '(claimed_by IS NULL OR (claimed_by = relay_me()'
    ' AND claimed_session = relay_my_session()))';
  lane CONSTANT text := '(session = relay_my_session() AND lane = relay_me())';
  intent CONSTANT text := '(agent = relay_me() AND session = relay_my_session())';
  need CONSTANT text := '(EXISTS (SELECT FROM work_queue w WHERE w.id = task_id AND (w.claimed_by IS NULL'
    ' OR (w.claimed_by = relay_me() AND w.claimed_session = relay_my_session()))))';
  words CONSTANT text := '(EXISTS (SELECT FROM memory_episodic m WHERE m.number = memory_episodic_fts.number'
    ' AND m.agent_id = relay_me()))';
  one record;
  verb text;
  acting text[];
  acts_as text;
  one_role text;
BEGIN
  PERFORM relay_make_roles();
  IF (SELECT count(*) FROM pg_roles WHERE rolname IN ('relay_service', 'relay_agent', 'relay_anon')) < 3 THEN
    RETURN false;
  END IF;
  -- Where nobody may make it, relay's own work for an agent is done by the service.
  acting := ARRAY(SELECT rolname FROM pg_roles WHERE rolname = 'relay_acting');
  FOREACH one_role IN ARRAY ARRAY['relay_service', 'relay_agent'] || acting LOOP
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', schema, one_role);
  END LOOP;
  FOREACH one_role IN ARRAY ARRAY['public', 'relay_service', 'relay_agent', 'relay_anon'] || acting LOOP
    EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA %I FROM %s', schema, one_role);
    EXECUTE format('REVOKE ALL ON ALL FUNCTIONS IN SCHEMA %I FROM %s', schema, one_role);
  END LOOP;
  FOREACH one_role IN ARRAY ARRAY['relay_service'] || acting LOOP
    EXECUTE format('GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA %I TO %s', schema, one_role);
  END LOOP;
  FOR one IN SELECT tablename AS name FROM pg_tables WHERE schemaname = schema LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', one.name);
    EXECUTE (SELECT coalesce(string_agg(format('DROP POLICY %I ON %I', policyname, tablename), ';'), '')
      FROM pg_policies WHERE schemaname = schema AND tablename = one.name);
    verb := CASE one.name WHEN 'schema_migrations' THEN 'SELECT' ELSE 'ALL' END;
    EXECUTE format('GRANT %s ON %I TO relay_service',
      CASE verb WHEN 'ALL' THEN 'SELECT, INSERT, UPDATE, DELETE' ELSE verb END, one.name);
    EXECUTE format('CREATE POLICY service ON %I FOR %s TO relay_service USING (true)', one.name, verb);
  END LOOP;
  FOR one IN SELECT * FROM (VALUES
    -- Shared: what the room tells everybody in it.
    ('events', 'SELECT', 'true'), ('events', 'INSERT', lane),
    ('lanes', 'SELECT', 'true'), ('lanes', 'INSERT', lane), ('lanes', 'UPDATE', lane),
    ('lane_exits', 'SELECT', 'true'),
    ('lane_exits', 'INSERT', '(into_lane = (SELECT relay_my_session() || ''/'' || relay_me()))'),
    ('counters', 'SELECT', 'true'),
    ('agent_sessions', 'SELECT', 'true'), ('agent_sessions', 'INSERT', mine), ('agent_sessions', 'UPDATE', mine),
    ('file_locks', 'SELECT', 'true'), ('file_locks', 'INSERT', of_session), ('file_locks', 'UPDATE', of_session),
    ('file_locks', 'DELETE', of_session),
    ('lock_waits', 'SELECT', 'true'), ('lock_waits', 'INSERT', of_session), ('lock_waits', 'UPDATE', of_session),
    ('lock_waits', 'DELETE', of_session),
    -- A task is anybody's to claim and to wire while nobody has it. An upsert of one that is there is an update.
    ('work_queue', 'SELECT', 'true'),
    ('work_queue', 'INSERT', '(' || free || ' AND (created_by = relay_me() OR relay_is_task(id)))'),
    ('work_queue', 'UPDATE', free),
    ('work_needs', 'SELECT', 'true'), ('work_needs', 'INSERT', need), ('work_needs', 'DELETE', need),
    ('task_changes', 'SELECT', 'true'),
    ('task_changes', 'INSERT', '(EXISTS (SELECT FROM events e WHERE e.id = event_id'
      ' AND e.session = relay_my_session() AND e.lane = relay_me()))'),
    ('changesets', 'SELECT', 'true'), ('changesets', 'INSERT', of_session),
    ('memory_episodic', 'SELECT', 'true'), ('memory_episodic', 'INSERT', mine), ('memory_episodic', 'UPDATE', mine),
    ('memory_episodic_fts', 'SELECT', 'true'), ('memory_episodic_fts', 'INSERT', words),
    ('memory_episodic_fts', 'UPDATE', words),
    ('messages', 'SELECT', 'true'),
    ('messages', 'INSERT', '(speaker = relay_me() AND kind = ''agent'')'),
    ('declared_intents', 'SELECT', 'true'), ('declared_intents', 'INSERT', intent),
    ('declared_intents', 'UPDATE', intent), ('declared_intents', 'DELETE', intent),
    ('advisories', 'SELECT', 'true'), ('advisory_messages', 'SELECT', 'true'), ('advisory_pairs', 'SELECT', 'true'),
    -- Its own alone.
    ('answered_requests', 'SELECT', mine), ('answered_requests', 'INSERT', mine),
    ('answered_requests', 'UPDATE', mine), ('answered_requests', 'DELETE', mine),
    ('read_marks', 'SELECT', of_session), ('read_marks', 'INSERT', of_session), ('read_marks', 'UPDATE', of_session)
  ) AS r (name, verb, allowed) LOOP
    -- Relay's own sessions say whom they work for by settings, which cost less to ask than who is asking.
    acts_as := replace(replace(one.allowed, 'relay_my_session()', 'current_setting(''relay.session_id'', true)'),
      'relay_me()', 'current_setting(''relay.agent_id'', true)');
    FOREACH one_role IN ARRAY acting LOOP
      EXECUTE format('GRANT %s ON %I TO %I', one.verb, one.name, one_role);
      EXECUTE format('CREATE POLICY %I ON %I FOR %s TO %I %s', 'acting_' || lower(one.verb), one.name, one.verb, one_role,
        CASE one.verb WHEN 'INSERT' THEN format('WITH CHECK (%s)', acts_as)
          WHEN 'UPDATE' THEN format('USING (%s) WITH CHECK (%s)', acts_as, acts_as)
          ELSE format('USING (%s)', acts_as) END);
    END LOOP;
    -- An agent reads. What it writes are functions', which keep more than rows.
    IF one.verb = 'SELECT' THEN
      EXECUTE format('GRANT SELECT ON %I TO relay_agent', one.name);
      EXECUTE format('CREATE POLICY agent_select ON %I FOR SELECT TO relay_agent USING (%s)', one.name, one.allowed);
    END IF;
  END LOOP;
  -- What runs with the owner's rights, and what an agent may call, looks into this schema only, and last into what is
  -- temporary, so that nothing of a caller's stands in for ours.
  FOR one IN SELECT p.oid::regprocedure AS called FROM pg_proc p WHERE p.pronamespace = schema::regnamespace
    AND (p.prosecdef OR p.proname IN ('relay_next_number', 'relay_acquire_lock', 'relay_release_lock', 'relay_claim_work',
      'relay_complete_work', 'relay_events_in_order')) LOOP
    EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', one.called, schema);
  END LOOP;
  ALTER FUNCTION relay_next_number(text) SECURITY DEFINER;
  GRANT EXECUTE ON FUNCTION relay_me(), relay_my_session(), relay_asking(), relay_now(), relay_join(text),
    relay_lock(text, text, double precision, text), relay_unlock(text, bigint),
    relay_claim(text[], double precision), relay_complete(text, text, bigint) TO relay_agent;
  FOREACH one_role IN ARRAY ARRAY['relay_service'] || acting LOOP
    EXECUTE format('REVOKE EXECUTE ON FUNCTION relay_make_roles(), relay_secure() FROM %I', one_role);
  END LOOP;
  RETURN true;
END $$;

SELECT relay_secure();
