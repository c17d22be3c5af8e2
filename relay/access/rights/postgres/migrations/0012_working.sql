-- An agent has the working memory of its own session, and no other reads that, in the log neither. What it counts of
-- skills is its own, and everybody's to read; how tasks count is the room's doing.
DO $$
DECLARE
  last CONSTANT text := '(''rewinds'', ''SELECT'', ''true'')';
  every_event CONSTANT text := '(''events'', ''SELECT'', ''true'')';
  source text := pg_get_functiondef('relay_secure()'::regprocedure);
BEGIN
  source := replace(source, every_event, '(''events'', ''SELECT'', ''(type NOT IN (''''working.stored'''','
    ' ''''working.compressed'''') OR (session = relay_my_session() AND lane = relay_me()))'')');
  EXECUTE replace(source, last, last || ', (''memory_working'', ''SELECT'', of_session),
    (''memory_working'', ''INSERT'', of_session), (''memory_working'', ''UPDATE'', of_session),
    (''memory_working'', ''DELETE'', of_session), (''memory_procedural'', ''SELECT'', ''true''),
    (''memory_procedural'', ''INSERT'', mine), (''memory_procedural'', ''UPDATE'', mine),
    (''memory_procedural_uses'', ''SELECT'', ''true'')');
  PERFORM relay_secure();
END $$;
