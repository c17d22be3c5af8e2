-- name: conditions
SELECT current_user::text AS who, 'PostgreSQL ' || split_part(current_setting('server_version'), ' ', 1) AS version,
  current_setting('fsync') AS fsync, current_setting('synchronous_commit') AS commits,
  (SELECT count(*) FROM pg_policies WHERE schemaname = 'relay') AS policies
