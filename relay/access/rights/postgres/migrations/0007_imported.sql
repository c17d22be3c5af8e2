-- Agents read what other replicas recorded; only relay imports it.
DO $$
DECLARE
  last CONSTANT text := '(''rewinds'', ''SELECT'', ''true'')';
BEGIN
  EXECUTE replace(pg_get_functiondef('relay_secure()'::regprocedure), last, last || ', (''imported_events'', ''SELECT'', ''true''),
    (''event_stubs'', ''SELECT'', ''true'')');
  PERFORM relay_secure();
END $$;
