-- name: all_touches
SELECT * FROM touches ORDER BY path, pos

-- name: all_rewinds
SELECT * FROM rewinds ORDER BY pos
