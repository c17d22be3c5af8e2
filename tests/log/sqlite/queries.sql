-- name: level
PRAGMA synchronous
