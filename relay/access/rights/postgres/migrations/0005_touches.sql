-- Agents read which files were changed by whom; only relay writes it.
DO $$
DECLARE
  last CONSTANT text := '(''read_marks'', ''UPDATE'', of_session)';
BEGIN
  EXECUTE replace(pg_get_functiondef('relay_secure()'::regprocedure), last, last || ', (''touches'', ''SELECT'', ''true''),
    (''worktree_trees'', ''SELECT'', ''true'')');
  PERFORM relay_secure();
END $$;
