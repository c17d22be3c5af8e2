-- Whoever may read asks for one session's or one agent's, latest first.
CREATE INDEX changesets_in_session ON changesets (session_id, created_at);
CREATE INDEX changesets_by_agent ON changesets (agent_id, created_at);
