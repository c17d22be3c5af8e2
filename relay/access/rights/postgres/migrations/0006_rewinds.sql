-- Agents read what was taken back; only relay writes it.
DO $$
DECLARE
  last CONSTANT text := '(''touches'', ''SELECT'', ''true'')';
BEGIN
  EXECUTE replace(pg_get_functiondef('relay_secure()'::regprocedure), last, last || ', (''rewinds'', ''SELECT'', ''true'')');
  PERFORM relay_secure();
END $$;
