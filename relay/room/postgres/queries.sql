-- name: put_message
INSERT INTO messages (number, id, pos, event_id, ts, at, speaker, kind, body, in_reply_to, addressed, job, meta,
  client_id, plain_digest)
VALUES (:number, :id, :pos, :event_id, :ts, :at, :speaker, :kind, :body, :in_reply_to, :addressed, :job, :meta,
  :client_id, :plain_digest)

-- name: message
SELECT * FROM messages WHERE id = :id

-- name: message_by_number
SELECT * FROM messages WHERE number = :number

-- name: message_by_client
SELECT * FROM messages WHERE client_id = :client_id

-- name: plain_known
SELECT 1 AS known FROM messages WHERE plain_digest = :plain_digest LIMIT 1

-- name: known_among
SELECT id, speaker, body FROM messages
WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:ids AS jsonb))))

-- name: messages_after
SELECT * FROM messages WHERE pos > :after ORDER BY pos LIMIT :limit

-- name: messages_before
SELECT * FROM messages WHERE pos < :before ORDER BY pos DESC LIMIT :limit

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

-- name: messages_between
SELECT * FROM messages WHERE number > :after AND number <= :upto ORDER BY number DESC LIMIT :limit

-- name: answers_since
SELECT * FROM messages WHERE at >= :since AND kind = 'agent' AND speaker = :agent ORDER BY at DESC, number DESC LIMIT :limit

-- name: set_meta
UPDATE messages SET meta = :meta WHERE id = :id

-- name: entries_since
SELECT COUNT(*) AS entries FROM (SELECT 1 FROM messages WHERE at >= :since LIMIT :most) AS found

-- name: search
SELECT m.* FROM (
  SELECT number FROM messages WHERE relay_words(body) @@ relay_words_query(:words) ORDER BY number DESC LIMIT :limit
) h JOIN messages m ON m.number = h.number ORDER BY m.number DESC

-- name: put_outbox
INSERT INTO outbox (message_id, number, line) VALUES (:message_id, :number, :line)

-- name: outbox
SELECT message_id, line FROM outbox ORDER BY number LIMIT :limit

-- name: outbox_among
SELECT message_id, line FROM outbox
WHERE message_id = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:ids AS jsonb))))

-- name: seen_in_file
DELETE FROM outbox
WHERE message_id = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:ids AS jsonb))))

-- name: outbox_size
SELECT COUNT(*) AS waiting FROM outbox

-- name: tail
SELECT * FROM tail WHERE id = 1

-- name: put_tail
INSERT INTO tail (id, "offset", head_len, head_sha, last_len, last_sha, history_until)
VALUES (1, :offset, :head_len, :head_sha, :last_len, :last_sha, :history_until)
ON CONFLICT (id) DO UPDATE SET "offset" = excluded."offset", head_len = excluded.head_len,
  head_sha = excluded.head_sha, last_len = excluded.last_len, last_sha = excluded.last_sha,
  history_until = excluded.history_until

-- name: open_cycle
INSERT INTO cycles (message_id, number, state, opened_at, due_at) VALUES (:message_id, :number, 'routing', :opened_at, :due_at)

-- name: put_cycle
INSERT INTO cycles (message_id, number, state, opened_at, due_at, decision)
VALUES (:message_id, :number, :state, :opened_at, :due_at, :decision)
ON CONFLICT (message_id) DO UPDATE SET state = excluded.state, decision = excluded.decision

-- name: routing
SELECT * FROM cycles WHERE state = 'routing' ORDER BY number

-- name: cycle
SELECT * FROM cycles WHERE message_id = :message_id

-- name: decide_cycle
UPDATE cycles SET state = :state, decision = :decision WHERE message_id = :message_id AND state = 'routing'
RETURNING message_id

-- name: fold_cycles
UPDATE cycles SET state = 'folded', folded_into = :into WHERE state = 'routing' AND number < :number
RETURNING message_id, number

-- name: put_job
INSERT INTO dispatch_queue (id, message_id, agent, state, cause_event, created_at, not_before)
VALUES (:id, :message_id, :agent, 'pending', :cause_event, :created_at, :not_before)

-- name: jobs_of_message
SELECT * FROM dispatch_queue WHERE message_id = :message_id ORDER BY id

-- name: job
SELECT * FROM dispatch_queue WHERE id = :id

-- name: jobs
SELECT * FROM dispatch_queue ORDER BY id DESC LIMIT :limit

-- name: jobs_of_messages
-- OFFSET 0: else it walks back through every job there is, in the hope of meeting these soon.
SELECT * FROM (
  SELECT * FROM dispatch_queue
  WHERE message_id = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:ids AS jsonb)))) OFFSET 0
) AS found ORDER BY id DESC LIMIT :limit

-- name: jobs_in_state
SELECT * FROM dispatch_queue WHERE state = :state ORDER BY id DESC LIMIT :limit

-- name: claim
UPDATE dispatch_queue SET state = 'active', attempts = attempts + 1, holder = :holder, lease_until = :lease_until,
  started_at = CAST(:now AS double precision), ended_at = NULL, error = NULL, error_class = NULL
WHERE agent = :agent AND state IN ('pending', 'failed')
  AND NOT EXISTS (SELECT 1 FROM dispatch_queue a WHERE a.agent = :agent AND a.state = 'active')
  AND (SELECT w.not_before FROM dispatch_queue w WHERE w.agent = :agent AND w.state IN ('pending', 'failed')
       ORDER BY w.id LIMIT 1)
      NOT BETWEEN CAST(:now AS double precision) + 0.000001 AND CAST(:far AS double precision)
  AND id IN (SELECT f.id FROM dispatch_queue f WHERE f.agent = :agent AND f.state IN ('pending', 'failed')
             ORDER BY f.id LIMIT :most)
RETURNING *

-- name: next_due
SELECT not_before FROM dispatch_queue WHERE agent = :agent AND state IN ('pending', 'failed') ORDER BY id LIMIT 1

-- name: renew
UPDATE dispatch_queue SET lease_until = :lease_until WHERE holder = :holder AND state = 'active'

-- name: end_jobs
UPDATE dispatch_queue SET state = :state, error = :error, error_class = :error_class, answer_id = :answer_id,
  not_before = :not_before, ended_at = :now, holder = NULL, lease_until = NULL,
  folded_into = CASE WHEN id = CAST(:primary_job AS bigint) THEN NULL ELSE CAST(:primary_job AS bigint) END,
  interrupted = CASE WHEN CAST(:interrupted AS integer) <> 0 THEN GREATEST(1, interrupted) ELSE 0 END
WHERE id = ANY (ARRAY(SELECT CAST(jsonb_array_elements(CAST(:ids AS jsonb)) AS bigint)))
  AND state = 'active' AND holder = :holder
RETURNING *

-- name: set_job
UPDATE dispatch_queue SET state = :state, error = :error, error_class = :error_class, attempts = :attempts,
  not_before = :not_before, ended_at = :now, holder = NULL, lease_until = NULL, interrupted = :interrupted
WHERE id = :id RETURNING *

-- name: refund_attempt
UPDATE dispatch_queue SET attempts = GREATEST(0, attempts - 1)
WHERE id = ANY (ARRAY(SELECT CAST(jsonb_array_elements(CAST(:ids AS jsonb)) AS bigint)))

-- name: active_jobs
SELECT * FROM dispatch_queue WHERE state = 'active' ORDER BY id

-- name: open_jobs_of_agent
SELECT * FROM dispatch_queue WHERE agent = :agent AND state IN ('pending', 'failed') ORDER BY id

-- name: open_counts
SELECT agent, COUNT(*) AS waiting FROM dispatch_queue WHERE state IN ('pending', 'failed') GROUP BY agent

-- name: state_counts
SELECT state, COUNT(*) AS jobs FROM dispatch_queue GROUP BY state ORDER BY state

-- name: breaker
SELECT * FROM breakers WHERE agent = :agent

-- name: breakers
SELECT * FROM breakers ORDER BY agent

-- name: put_breaker
INSERT INTO breakers (agent, state, failures, opened_at, parked_until)
VALUES (:agent, :state, :failures, :opened_at, :parked_until)
ON CONFLICT (agent) DO UPDATE SET state = excluded.state, failures = excluded.failures,
  opened_at = excluded.opened_at, parked_until = excluded.parked_until

-- name: agent
SELECT * FROM agents WHERE name = :name

-- name: agents
SELECT * FROM agents ORDER BY name

-- name: ensure_agent
INSERT INTO agents (name) VALUES (:name) ON CONFLICT DO NOTHING

-- name: set_paused
INSERT INTO agents (name, paused) VALUES (:name, :paused) ON CONFLICT (name) DO UPDATE SET paused = excluded.paused

-- name: set_session
INSERT INTO agents (name, session, resume) VALUES (:name, :session, :resume)
ON CONFLICT (name) DO UPDATE SET session = excluded.session, resume = excluded.resume

-- name: set_shown
UPDATE agents SET shown_number = GREATEST(shown_number, :shown_number) WHERE name = :name

-- name: put_turn
INSERT INTO turns (agent, job, started_at, ended_at, failure, input_tokens, cache_write_tokens,
  cache_read_tokens, output_tokens, cost_usd)
VALUES (:agent, :job, :started_at, :ended_at, :failure, :input_tokens, :cache_write_tokens,
  :cache_read_tokens, :output_tokens, :cost_usd)

-- name: spent
SELECT COUNT(*) FILTER (WHERE started_at > :hour_ago) AS turns_hour,
  CAST(COALESCE(SUM(input_tokens), 0) AS bigint) AS input, CAST(COALESCE(SUM(cache_write_tokens), 0) AS bigint) AS cache_write,
  CAST(COALESCE(SUM(cache_read_tokens), 0) AS bigint) AS cache_read, CAST(COALESCE(SUM(output_tokens), 0) AS bigint) AS output,
  COALESCE(SUM(cost_usd), 0) AS usd,
  MIN(started_at) FILTER (WHERE started_at > :hour_ago) AS oldest_in_hour, MIN(started_at) AS oldest
FROM turns WHERE agent = :agent AND started_at > :day_ago

-- name: last_skips
SELECT * FROM dispatch_queue WHERE state IN ('skipped', 'dead') ORDER BY ended_at DESC LIMIT :limit

-- name: event_of_message
SELECT event_id FROM messages WHERE id = :id

-- name: events_of_messages
SELECT id, event_id FROM messages
WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:ids AS jsonb))))

-- name: outbox_first
SELECT message_id FROM outbox LIMIT 1

-- name: held_jobs
SELECT * FROM dispatch_queue
WHERE id = ANY (ARRAY(SELECT CAST(jsonb_array_elements(CAST(:ids AS jsonb)) AS bigint))) AND state = 'active'
  AND holder = :holder ORDER BY id

-- name: last_number
SELECT COALESCE(MAX(number), 0) AS number FROM messages

-- name: open_jobs
SELECT * FROM dispatch_queue WHERE state IN ('pending', 'failed', 'active') ORDER BY id DESC LIMIT 200

-- name: steward_done
UPDATE dispatch_queue SET state = 'done', attempts = attempts + 1, started_at = :now, ended_at = :now,
  answer_id = :answer_id, error = NULL
WHERE id = :id AND state IN ('pending', 'failed') RETURNING *

-- name: any_held
SELECT 1 AS held FROM held LIMIT 1

-- name: held
SELECT h.message_id, h.agents FROM held h JOIN messages m ON m.id = h.message_id ORDER BY m.number

-- name: hold
INSERT INTO held (message_id, agents) VALUES (:message_id, :agents)
ON CONFLICT (message_id) DO UPDATE SET agents = excluded.agents

-- name: release_held
DELETE FROM held

-- What people asked of these agents, the newest first.
-- name: asked_of
SELECT q.agent, m.body FROM dispatch_queue q JOIN messages m ON m.id = q.message_id
WHERE q.agent = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:agents AS jsonb)))) AND q.state IN ('active', 'done')
  AND m.kind = 'human'
ORDER BY q.id DESC LIMIT :limit
