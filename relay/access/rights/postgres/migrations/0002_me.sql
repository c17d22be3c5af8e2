-- Who is asking is looked up for every row that a statement writes: what a JWT claims is looked into only where there is
-- one, so that whoever has none pays one comparison for it; and a policy asks it where it compares, since a statement of
-- ours touches few rows, and a subquery of each policy costs more to begin than to ask.
CREATE FUNCTION relay_claim(name text) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN RETURN relay_claims()->>name; END $$;

CREATE OR REPLACE FUNCTION relay_me() RETURNS text LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN current_setting('request.jwt.claims', true) > '' THEN coalesce(relay_claim('agent_id'), relay_claim('sub'))
    ELSE nullif(current_setting('relay.agent_id', true), '') END
$$;

CREATE OR REPLACE FUNCTION relay_my_session() RETURNS text LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN current_setting('request.jwt.claims', true) > '' THEN relay_claim('session_id')
    ELSE nullif(current_setting('relay.session_id', true), '') END
$$;

DROP FUNCTION relay_become(text, text);

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
BEGIN
  PERFORM relay_make_roles();
  IF (SELECT count(*) FROM pg_roles WHERE rolname IN ('relay_service', 'relay_agent', 'relay_anon')) < 3 THEN
    RETURN false;
  END IF;
  EXECUTE format('GRANT USAGE ON SCHEMA %I TO relay_service, relay_agent', schema);
  EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA %I FROM PUBLIC, relay_service, relay_agent, relay_anon', schema);
  EXECUTE format('REVOKE ALL ON ALL FUNCTIONS IN SCHEMA %I FROM PUBLIC', schema);
  EXECUTE format('GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA %I TO relay_service, relay_agent', schema);
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
    EXECUTE format('GRANT %s ON %I TO relay_agent', one.verb, one.name);
    EXECUTE format('CREATE POLICY %I ON %I FOR %s TO relay_agent %s', 'agent_' || lower(one.verb), one.name, one.verb,
      CASE one.verb WHEN 'INSERT' THEN format('WITH CHECK (%s)', one.allowed)
        WHEN 'UPDATE' THEN format('USING (%s) WITH CHECK (%s)', one.allowed, one.allowed)
        ELSE format('USING (%s)', one.allowed) END);
  END LOOP;
  -- What an agent's own doing needs beyond its rows is done by functions of the owner, which look into this schema only.
  EXECUTE format('ALTER FUNCTION relay_next_number(text) SECURITY DEFINER SET search_path = %I, pg_temp', schema);
  EXECUTE format('ALTER FUNCTION relay_is_task(text) SET search_path = %I, pg_temp', schema);
  EXECUTE format('REVOKE EXECUTE ON FUNCTION relay_make_roles(), relay_secure() FROM relay_service, relay_agent');
  RETURN true;
END $$;

SELECT relay_secure();
