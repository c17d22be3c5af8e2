-- Agents read what skills are found by; only relay writes it.
DO $$
DECLARE
  last CONSTANT text := '(''memory_procedural_uses'', ''SELECT'', ''true'')';
BEGIN
  EXECUTE replace(pg_get_functiondef('relay_secure()'::regprocedure), last, last ||
    ', (''memory_procedural_words'', ''SELECT'', ''true''), (''memory_procedural_texts'', ''SELECT'', ''true'')');
  PERFORM relay_secure();
END $$;
