-- name: append_event
SELECT * FROM relay_append_event(:type, :session, :lane, :inputs, :outputs,
  ARRAY(SELECT json_array_elements_text(:parents::json)), ARRAY(SELECT json_array_elements_text(:causal_deps::json)),
  :role, :branch, :snapshot,
  CASE WHEN :file_touches::text IS NOT NULL THEN ARRAY(SELECT json_array_elements_text(:file_touches::json)) END,
  :source_key, :at, :short)

-- name: note_in_one
SELECT (relay_append_event('note', 'room', :lane, new_outputs => :outputs)).pos FROM relay_lock_shared()

-- name: doubtful
SELECT (relay_append_event('note', 'room', 'ann')).pos FROM (SELECT pg_sleep(:seconds)) AS slept

-- name: cut_me
SELECT pg_terminate_backend(pg_backend_pid())

-- name: sleep
SELECT pg_sleep(:seconds)

-- name: lock_setting
SELECT 1 AS found FROM settings WHERE name = :name FOR UPDATE

-- name: told
SELECT relay_now() AS now, current_setting('synchronous_commit') AS durable

-- name: kinds
SELECT :flag::boolean AS flag, :count::bigint AS count, :word::text AS word, :real::double precision AS real,
  :raw::bytea AS raw, :nothing::text AS nothing, ':no' AS kept

-- name: divide
SELECT 100 / :by::bigint AS quotient, :alone::boolean AS alone

-- name: note_alone
SELECT (relay_append_event('note', 'room', :lane)).pos, :alone::boolean AS alone FROM relay_lock_shared()
