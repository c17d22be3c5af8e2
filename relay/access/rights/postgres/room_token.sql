-- name: room_token
SELECT token FROM room_token

-- name: put_room_token
INSERT INTO room_token (token, set_by, set_at) VALUES (:token, :by, :now) ON CONFLICT DO NOTHING

-- name: replace_room_token
UPDATE room_token SET token = :new, set_by = :by, set_at = :now WHERE token = :old
