-- name: keys_made_by
SELECT id, note FROM api_keys WHERE created_by = :maker

-- name: forget_key
DELETE FROM api_keys WHERE id = :id AND created_by = :maker RETURNING identity
