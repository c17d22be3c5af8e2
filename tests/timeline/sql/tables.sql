-- name: all_touches
SELECT * FROM touches ORDER BY path, pos
