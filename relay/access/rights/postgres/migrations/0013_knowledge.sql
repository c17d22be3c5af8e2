-- Agents read the knowledge that they may (003, section 7.6): what everybody may, what is of their role, what they were
-- shown by name, and their own. Only relay writes it; an agent notes what it has read.
DO $$
DECLARE
  last CONSTANT text := '(''handoffs'', ''SELECT'', ''true'')';
  mine CONSTANT text := $p$(r.reader = '@' || relay_me()
    OR r.reader IN (SELECT 'role:' || o.role FROM knowledge_roles o WHERE o.agent_id = relay_me()))$p$;
  reads CONSTANT text := '(audience = 0 OR audience IN (SELECT r.audience FROM knowledge_readers r WHERE ' || mine || '))';
  entry CONSTANT text := '(EXISTS (SELECT FROM knowledge_entries e WHERE e.id = knowledge_uses.id))';
  more text;
BEGIN
  SELECT string_agg(format(', (%L, %L, %L)', r.name, r.verb, r.allowed), '') INTO more FROM (VALUES
    ('knowledge_entries', 'SELECT', reads), ('knowledge_words', 'SELECT', reads), ('knowledge_counts', 'SELECT', reads),
    ('knowledge_files', 'SELECT', reads), ('knowledge_audiences', 'SELECT', reads),
    ('knowledge_readers', 'SELECT', replace(mine, 'r.reader', 'reader')),
    ('knowledge_roles', 'SELECT', '(agent_id = relay_me())'),
    ('knowledge_relations', 'SELECT', '(EXISTS (SELECT FROM knowledge_entries s WHERE s.number = source)'
      ' AND EXISTS (SELECT FROM knowledge_entries t WHERE t.number = target))'),
    ('knowledge_uses', 'SELECT', entry),
    ('knowledge_uses', 'INSERT', '(agent_id = relay_me() AND event_id = '''' AND ' || entry || ')')
  ) AS r (name, verb, allowed);
  EXECUTE replace(pg_get_functiondef('relay_secure()'::regprocedure), last, last || more);
  PERFORM relay_secure();
END $$;
