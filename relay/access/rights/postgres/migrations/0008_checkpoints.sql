-- Agents read which checkpoints there are; only relay makes them.
DO $$
DECLARE
  last CONSTANT text := '(''rewinds'', ''SELECT'', ''true'')';
BEGIN
  EXECUTE replace(pg_get_functiondef('relay_secure()'::regprocedure), last, last || ', (''checkpoints'', ''SELECT'', ''true'')');
  PERFORM relay_secure();
END $$;
