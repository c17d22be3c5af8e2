-- name: clear_touches
DELETE FROM touches
