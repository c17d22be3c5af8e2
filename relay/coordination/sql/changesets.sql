-- name: put_changeset
INSERT INTO changesets (id, agent_id, session_id, summary, declared, changed, undeclared, base, head, fencing_token,
  created_at)
VALUES (:id, :agent, :session, :summary, :declared, :changed, :undeclared, :base, :head, :token, :now)

-- name: changesets_of_session
SELECT * FROM changesets WHERE session_id = :session ORDER BY created_at DESC LIMIT :limit

-- name: changesets_of_agent
SELECT * FROM changesets WHERE agent_id = :agent ORDER BY created_at DESC LIMIT :limit

-- name: changesets_of_holder
SELECT * FROM changesets WHERE agent_id = :agent AND session_id = :session ORDER BY created_at DESC LIMIT :limit

-- name: latest_changesets
SELECT * FROM changesets ORDER BY created_at DESC LIMIT :limit
