-- Agents read what people were asked about; only relay writes it.
DO $$
DECLARE
  last CONSTANT text := '(''exploration_variants'', ''SELECT'', ''true'')';
BEGIN
  EXECUTE replace(pg_get_functiondef('relay_secure()'::regprocedure), last, last ||
    ', (''merge_conflicts'', ''SELECT'', ''true'')');
  PERFORM relay_secure();
END $$;
