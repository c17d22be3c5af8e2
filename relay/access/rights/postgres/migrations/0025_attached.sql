-- Agents see which people's own sessions are here; only relay writes it.
DO $$
DECLARE
  last CONSTANT text := '(''landing_entries'', ''SELECT'', ''true'')';
  source CONSTANT text := pg_get_functiondef('relay_secure()'::regprocedure);
  told CONSTANT text := replace(source, last, last || ', (''attached_sessions'', ''SELECT'', ''true'')');
BEGIN
  ASSERT told <> source;
  EXECUTE told;
  PERFORM relay_secure();
END $$;
