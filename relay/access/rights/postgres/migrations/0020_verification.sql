-- Agents read what was verified, what people are asked and what lands; only relay writes it: no agent's own login writes
-- a verdict, a policy or an approval.
DO $$
DECLARE
  last CONSTANT text := '(''merge_findings'', ''SELECT'', ''true'')';
  source CONSTANT text := pg_get_functiondef('relay_secure()'::regprocedure);
  told CONSTANT text := replace(source, last, last ||
    ', (''verifications'', ''SELECT'', ''true''), (''verification_results'', ''SELECT'', ''true''),
    (''verification_policies'', ''SELECT'', ''true''), (''approval_queue'', ''SELECT'', ''true''),
    (''landing_entries'', ''SELECT'', ''true'')');
BEGIN
  ASSERT told <> source;
  EXECUTE told;
  PERFORM relay_secure();
END $$;
