-- Agents read where explorations stand; only relay writes them.
DO $$
DECLARE
  last CONSTANT text := '(''memory_vectors'', ''SELECT'', ''true'')';
BEGIN
  EXECUTE replace(pg_get_functiondef('relay_secure()'::regprocedure), last, last ||
    ', (''explorations'', ''SELECT'', ''true''), (''exploration_variants'', ''SELECT'', ''true'')');
  PERFORM relay_secure();
END $$;
