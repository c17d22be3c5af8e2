-- Agents read what memories are found by; only relay writes it.
DO $$
DECLARE
  last CONSTANT text := '(''handoffs'', ''SELECT'', ''true'')';
BEGIN
  EXECUTE replace(pg_get_functiondef('relay_secure()'::regprocedure), last, last || ', (''memory_episodic_words'', ''SELECT'', ''true''),
    (''memory_word_counts'', ''SELECT'', ''true''), (''memory_keys'', ''SELECT'', ''true''),
    (''memory_events'', ''SELECT'', ''true''), (''memory_feedback'', ''SELECT'', ''true'')');
  PERFORM relay_secure();
END $$;
