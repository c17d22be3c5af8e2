-- What runs with the owner's rights looks into this schema only, and is not everybody's to call, also where the roles are
-- missing: relay_secure() says both only where they are there.
--
-- An agent's role takes no lock by SQL: which file a path means is asked of the disk (its links, whether case counts),
-- which the database cannot see, so two agents could each be told that they hold one file. relay itself takes it.

DO $$
DECLARE called regprocedure;
BEGIN
  EXECUTE replace(pg_get_functiondef('relay_secure()'::regprocedure), 'relay_lock(text, text, double precision, text), ', '');
  DROP FUNCTION relay_lock(text, text, double precision, text);
  PERFORM relay_secure();
  FOR called IN SELECT p.oid FROM pg_proc p WHERE p.pronamespace = current_schema()::regnamespace AND p.prosecdef LOOP
    EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', called, current_schema());
    EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', called);
  END LOOP;
END $$;
