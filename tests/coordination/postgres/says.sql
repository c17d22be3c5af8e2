-- name: transactions
SELECT xmin::text AS made_by, count(*) AS locks FROM file_locks WHERE key LIKE 'own%/a.py' GROUP BY 1
