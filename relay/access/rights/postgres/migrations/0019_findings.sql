-- Agents read which conflicts were found between them; only relay writes it.
DO $$
DECLARE
  last CONSTANT text := '(''merge_conflicts'', ''SELECT'', ''true'')';
BEGIN
  EXECUTE replace(pg_get_functiondef('relay_secure()'::regprocedure), last, last ||
    ', (''merge_findings'', ''SELECT'', ''true'')');
  PERFORM relay_secure();
END $$;
