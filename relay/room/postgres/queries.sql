-- name: numbers_among
SELECT id, number FROM messages
WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:ids AS jsonb))))

-- What names or addresses one reader, or answers it; the caller looks at the names once more.
-- name: addressed_after
SELECT m.* FROM messages m WHERE m.pos > :after AND m.speaker <> :name AND (m.body ILIKE :named ESCAPE '!' OR m.body ILIKE '%@all%' OR CAST(m.addressed AS text) ILIKE :to ESCAPE '!'
  OR EXISTS (SELECT 1 FROM messages r WHERE r.id = m.in_reply_to AND r.speaker = :name))
ORDER BY m.pos LIMIT :limit

-- name: newest_addressed
SELECT m.* FROM messages m WHERE m.number > (SELECT COALESCE(MAX(number), 0) - :most FROM messages) AND m.speaker <> :name AND (m.body ILIKE :named ESCAPE '!' OR m.body ILIKE '%@all%' OR CAST(m.addressed AS text) ILIKE :to ESCAPE '!'
  OR EXISTS (SELECT 1 FROM messages r WHERE r.id = m.in_reply_to AND r.speaker = :name))
ORDER BY m.number DESC LIMIT :limit

-- name: messages_by_ids
SELECT * FROM messages
WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:ids AS jsonb)))) ORDER BY number

-- name: replies_of
SELECT thread, COUNT(*) AS replies FROM messages
WHERE thread = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:ids AS jsonb)))) AND kind <> 'system'
AND CAST(meta AS jsonb) -> 'deleted' IS NULL GROUP BY thread

-- name: entries_since
SELECT COUNT(*) AS entries FROM (SELECT 1 FROM messages WHERE at >= :since LIMIT :most) AS found

-- name: search
SELECT m.* FROM (
  SELECT number FROM messages WHERE relay_words(body) @@ relay_words_query(:words) ORDER BY number DESC LIMIT :limit
) h JOIN messages m ON m.number = h.number ORDER BY m.number DESC

-- name: put_tail
INSERT INTO tail (member, "offset", head_len, head_sha, last_len, last_sha, history_until, upto, ahead, blank)
VALUES (:member, :offset, :head_len, :head_sha, :last_len, :last_sha, :history_until, :upto, :ahead, :blank)
ON CONFLICT (member) DO UPDATE SET "offset" = excluded."offset", head_len = excluded.head_len,
  head_sha = excluded.head_sha, last_len = excluded.last_len, last_sha = excluded.last_sha,
  history_until = excluded.history_until, upto = excluded.upto, ahead = excluded.ahead, blank = excluded.blank

-- name: move_tail
SELECT relay_move_tail(:member, :announced,
  :offset, :head_len, :head_sha, :last_len, :last_sha, :history_until, :upto, :ahead, :blank,
  :new_offset, :new_head_len, :new_head_sha, :new_last_len, :new_last_sha, :new_history_until, :new_upto, :new_ahead,
  :new_blank) AS moved

-- name: jobs_of_messages
-- OFFSET 0: else it walks back through every job there is, in the hope of meeting these soon.
SELECT * FROM (
  SELECT * FROM dispatch_queue
  WHERE message_id = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:ids AS jsonb)))) OFFSET 0
) AS found ORDER BY id DESC LIMIT :limit

-- name: claim
UPDATE dispatch_queue SET state = 'active', attempts = attempts + 1, holder = :holder, lease_until = :lease_until,
  started_at = CAST(:now AS double precision), ended_at = NULL, error = NULL, error_class = NULL,
  heard_at = NULL, heard_after = NULL
WHERE agent = :agent AND state IN ('pending', 'failed')
  AND NOT EXISTS (SELECT 1 FROM dispatch_queue a WHERE a.agent = :agent AND a.state = 'active')
  AND (SELECT w.not_before FROM dispatch_queue w WHERE w.agent = :agent AND w.state IN ('pending', 'failed')
       ORDER BY w.id LIMIT 1)
      NOT BETWEEN CAST(:now AS double precision) + 0.000001 AND CAST(:far AS double precision)
  AND id IN (SELECT f.id FROM dispatch_queue f WHERE f.agent = :agent AND f.state IN ('pending', 'failed')
             ORDER BY f.id LIMIT :most)
RETURNING *

-- name: end_jobs
UPDATE dispatch_queue SET state = :state, error = :error, error_class = :error_class, answer_id = :answer_id,
  not_before = :not_before, ended_at = :now, holder = NULL, lease_until = NULL,
  folded_into = CASE WHEN id = CAST(:primary_job AS bigint) THEN NULL ELSE CAST(:primary_job AS bigint) END,
  interrupted = CASE WHEN CAST(:interrupted AS integer) <> 0 THEN GREATEST(1, interrupted) ELSE 0 END
WHERE id = ANY (ARRAY(SELECT CAST(jsonb_array_elements(CAST(:ids AS jsonb)) AS bigint)))
  AND state = 'active' AND holder = :holder
RETURNING *

-- name: refund_attempt
UPDATE dispatch_queue SET attempts = GREATEST(0, attempts - 1)
WHERE id = ANY (ARRAY(SELECT CAST(jsonb_array_elements(CAST(:ids AS jsonb)) AS bigint)))

-- name: state_counts
SELECT state, COUNT(*) AS jobs FROM dispatch_queue GROUP BY state ORDER BY state

-- name: breakers
SELECT * FROM breakers ORDER BY agent

-- name: agents
SELECT * FROM agents ORDER BY name

-- name: set_shown
UPDATE agents SET shown_number = GREATEST(shown_number, :shown_number) WHERE name = :name

-- name: spent
SELECT COUNT(*) FILTER (WHERE started_at > :hour_ago) AS turns_hour,
  CAST(COALESCE(SUM(input_tokens), 0) AS bigint) AS input, CAST(COALESCE(SUM(cache_write_tokens), 0) AS bigint) AS cache_write,
  CAST(COALESCE(SUM(cache_read_tokens), 0) AS bigint) AS cache_read, CAST(COALESCE(SUM(output_tokens), 0) AS bigint) AS output,
  COALESCE(SUM(cost_usd), 0) AS usd,
  MIN(started_at) FILTER (WHERE started_at > :hour_ago) AS oldest_in_hour, MIN(started_at) AS oldest,
  MAX(ended_at) AS newest
FROM turns WHERE agent = :agent AND started_at > :day_ago

-- What each agent used, by hours behind `start`; the known agents are few, so their index is used.
-- name: used_by_hour
SELECT t.agent, CAST(FLOOR((t.started_at - CAST(:start AS double precision)) / 3600) AS bigint) AS hour, COUNT(*) AS turns,
  CAST(SUM(t.input_tokens) AS bigint) AS input,
  CAST(SUM(t.cache_write_tokens) AS bigint) AS cache_write,
  CAST(SUM(t.cache_read_tokens) AS bigint) AS cache_read,
  CAST(SUM(t.output_tokens) AS bigint) AS output, SUM(t.cost_usd) AS usd,
  COUNT(*) FILTER (WHERE t.cost_usd = 0) AS unpriced
FROM agents a JOIN turns t ON t.agent = a.name AND t.started_at >= :start
GROUP BY t.agent, 2 ORDER BY 2, t.agent

-- name: last_skips
SELECT * FROM dispatch_queue WHERE state IN ('skipped', 'dead') ORDER BY ended_at DESC LIMIT :limit

-- name: events_of_messages
SELECT id, event_id FROM messages
WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:ids AS jsonb))))

-- name: held_jobs
SELECT * FROM dispatch_queue
WHERE id = ANY (ARRAY(SELECT CAST(jsonb_array_elements(CAST(:ids AS jsonb)) AS bigint))) AND state = 'active'
  AND holder = :holder ORDER BY id

-- name: held
SELECT h.message_id, h.agents FROM held h JOIN messages m ON m.id = h.message_id ORDER BY m.number

-- What people asked of these agents, the newest first.
-- name: asked_of
SELECT q.agent, m.body FROM dispatch_queue q JOIN messages m ON m.id = q.message_id
WHERE q.agent = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:agents AS jsonb)))) AND q.state IN ('active', 'done')
  AND m.kind = 'human'
ORDER BY q.id DESC LIMIT :limit
