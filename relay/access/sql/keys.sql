-- name: put_key
INSERT INTO api_keys (id, digest, identity, agent_type, scopes, note, created_by, created_at, expires_at)
VALUES (:id, :digest, :identity, :agent_type, :scopes, :note, :created_by, :now, :expires_at)

-- name: api_key
SELECT id, digest, identity, agent_type, scopes, note, created_by, created_at, expires_at, revoked_at, used_at
FROM api_keys WHERE id = :id

-- name: api_keys
SELECT id, digest, identity, agent_type, scopes, note, created_by, created_at, expires_at, revoked_at, used_at
FROM api_keys ORDER BY created_at DESC, id LIMIT :limit

-- name: revoke_key
UPDATE api_keys SET revoked_at = :now WHERE id = :id AND revoked_at IS NULL

-- name: use_key
UPDATE api_keys SET used_at = :now WHERE id = :id AND (used_at IS NULL OR used_at <= :before)
