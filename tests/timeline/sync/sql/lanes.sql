-- name: all_lanes
SELECT * FROM lanes ORDER BY session, lane
