-- name: conflicts_of_ids
SELECT * FROM merge_conflicts WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:ids AS jsonb))))
