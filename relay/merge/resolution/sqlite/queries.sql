-- name: conflicts_of_ids
SELECT * FROM merge_conflicts WHERE id IN (SELECT value FROM json_each(:ids))
