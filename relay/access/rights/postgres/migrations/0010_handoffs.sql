-- Agents read where handoffs stand; only relay writes it.
DO $$
DECLARE
  last CONSTANT text := '(''rewinds'', ''SELECT'', ''true'')';
BEGIN
  EXECUTE replace(pg_get_functiondef('relay_secure()'::regprocedure), last, last || ', (''handoffs'', ''SELECT'', ''true'')');
  PERFORM relay_secure();
END $$;
