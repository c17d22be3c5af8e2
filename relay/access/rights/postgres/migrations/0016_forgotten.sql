-- What was forgotten is told to nobody, also by the table itself: an agent's own login does not read its row. Relay's
-- own work for an agent does, so that it makes no memory of the same again.
DO $$
DECLARE
  reads CONSTANT text := 'FOR SELECT TO relay_agent USING (%s)'', one.name, one.allowed)';
  source CONSTANT text := pg_get_functiondef('relay_secure()'::regprocedure);
  told CONSTANT text := replace(source, reads, 'FOR SELECT TO relay_agent USING (%s)'', one.name,
        CASE one.name WHEN ''memory_episodic'' THEN ''forgotten_at IS NULL'' ELSE one.allowed END)');
BEGIN
  ASSERT told <> source;
  EXECUTE told;
  PERFORM relay_secure();
END $$;
