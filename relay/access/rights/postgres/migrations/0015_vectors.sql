-- Agents read the vectors of memories; only relay writes them.
DO $$
DECLARE
  last CONSTANT text := '(''memory_procedural_texts'', ''SELECT'', ''true'')';
BEGIN
  EXECUTE replace(pg_get_functiondef('relay_secure()'::regprocedure), last, last ||
    ', (''memory_vectors'', ''SELECT'', ''true'')');
  PERFORM relay_secure();
END $$;
