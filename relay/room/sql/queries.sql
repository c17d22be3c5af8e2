-- name: put_message
INSERT INTO messages (number, id, pos, event_id, ts, at, speaker, kind, body, in_reply_to, thread, addressed, job, meta,
  client_id, plain_digest)
VALUES (:number, :id, (SELECT pos FROM events WHERE id = :event_id), :event_id, :ts, :at, :speaker, :kind, :body, :in_reply_to, :thread, :addressed, :job, :meta,
  :client_id, :plain_digest)

-- name: message
SELECT * FROM messages WHERE id = :id

-- name: message_by_number
SELECT * FROM messages WHERE number = :number

-- name: message_by_client
SELECT * FROM messages WHERE client_id = :client_id

-- name: plain_known
SELECT number FROM messages WHERE plain_digest = :plain_digest ORDER BY number

-- name: messages_after
SELECT * FROM messages WHERE pos > :after ORDER BY pos LIMIT :limit

-- name: messages_before
SELECT * FROM messages WHERE pos < :before ORDER BY pos DESC LIMIT :limit

-- name: messages_between
SELECT * FROM messages WHERE number > :after AND number <= :upto ORDER BY number DESC LIMIT :limit

-- The newest entries behind one, with no more of what each says than `most` characters.
-- name: messages_in_short
SELECT number, ts, speaker, kind, substr(body, 1, :most) AS body, meta FROM messages WHERE number > :after ORDER BY number DESC LIMIT :limit

-- What one said last, among the newest entries, but for a command that begins with these words.
-- name: last_said
SELECT m.number, m.ts FROM messages m WHERE m.number > (SELECT COALESCE(MAX(number), 0) - :most FROM messages)
  AND m.speaker = :speaker AND m.kind = 'human' AND substr(m.body, 1, length(:but)) <> :but ORDER BY m.number DESC LIMIT 1

-- name: answers_since
SELECT * FROM messages WHERE at >= :since AND kind = 'agent' AND speaker = :agent ORDER BY at DESC, number DESC LIMIT :limit

-- An entry says something else from now on; what it was written with is kept.
-- name: set_text
UPDATE messages SET said = COALESCE(said, body), body = :body, meta = :meta WHERE id = :id

-- The condition is that of the index, word by word.
-- name: messages_with_files
SELECT number, body, said, meta FROM messages WHERE body LIKE '%relay-file:%' OR said LIKE '%relay-file:%'

-- name: thread
SELECT * FROM messages WHERE thread = :root ORDER BY number DESC LIMIT :limit

-- name: set_pin
UPDATE messages SET pinned_by = :by, pinned_in = :entry WHERE id = :id

-- name: pins
SELECT * FROM messages WHERE pinned_in IS NOT NULL ORDER BY pinned_in DESC LIMIT :limit

-- name: set_meta
UPDATE messages SET meta = :meta WHERE id = :id

-- name: messages_from
SELECT * FROM messages WHERE number > :after ORDER BY number LIMIT :limit

-- name: tail
SELECT * FROM tail WHERE member = :member

-- name: tails
SELECT member FROM tail ORDER BY member

-- name: drop_tail
DELETE FROM tail WHERE member = :member

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

-- name: jobs_in_state
SELECT * FROM dispatch_queue WHERE state = :state ORDER BY id DESC LIMIT :limit

-- name: next_due
SELECT not_before FROM dispatch_queue WHERE agent = :agent AND state IN ('pending', 'failed') ORDER BY id LIMIT 1

-- name: renew
UPDATE dispatch_queue SET lease_until = :lease_until WHERE holder = :holder AND state = 'active'

-- name: set_job
UPDATE dispatch_queue SET state = :state, error = :error, error_class = :error_class, attempts = :attempts,
  not_before = :not_before, ended_at = :now, holder = NULL, lease_until = NULL, interrupted = :interrupted
WHERE id = :id RETURNING *

-- A running turn has heard the message of a job that waited.
-- name: hear
UPDATE dispatch_queue SET state = 'active', attempts = attempts + 1, holder = :holder, lease_until = :lease_until,
  started_at = :now, ended_at = NULL, error = NULL, error_class = NULL, heard_at = :now, heard_after = :after
WHERE message_id = :message_id AND agent = :agent AND state IN ('pending', 'failed') RETURNING *

-- The last messages that this agent heard inside a turn.
-- name: heard
SELECT message_id FROM dispatch_queue WHERE agent = :agent AND heard_at IS NOT NULL ORDER BY id DESC LIMIT :limit

-- name: hold_again
UPDATE dispatch_queue SET state = 'active', holder = :holder, attempts = attempts + 1, ended_at = NULL
WHERE id = :id AND state = 'pending' AND interrupted > 0 RETURNING *

-- name: take_job
UPDATE dispatch_queue SET state = 'active', attempts = attempts + 1, holder = :holder, lease_until = NULL,
  started_at = :now, ended_at = NULL, error = NULL, error_class = NULL
WHERE id = :id AND state IN ('pending', 'failed') RETURNING *

-- name: active_jobs
SELECT * FROM dispatch_queue WHERE state = 'active' ORDER BY id

-- name: open_jobs_of_agent
SELECT * FROM dispatch_queue WHERE agent = :agent AND state IN ('pending', 'failed') ORDER BY id

-- name: open_counts
SELECT agent, COUNT(*) AS waiting FROM dispatch_queue WHERE state IN ('pending', 'failed') GROUP BY agent

-- name: active_counts
SELECT agent, COUNT(*) AS waiting FROM dispatch_queue WHERE state = 'active' GROUP BY agent

-- name: breaker
SELECT * FROM breakers WHERE agent = :agent

-- name: put_breaker
INSERT INTO breakers (agent, state, failures, opened_at, parked_until)
VALUES (:agent, :state, :failures, :opened_at, :parked_until)
ON CONFLICT (agent) DO UPDATE SET state = excluded.state, failures = excluded.failures,
  opened_at = excluded.opened_at, parked_until = excluded.parked_until

-- name: agent
SELECT * FROM agents WHERE name = :name

-- name: ensure_agent
INSERT INTO agents (name) VALUES (:name) ON CONFLICT DO NOTHING

-- name: set_paused
INSERT INTO agents (name, paused) VALUES (:name, :paused) ON CONFLICT (name) DO UPDATE SET paused = excluded.paused

-- name: set_session
INSERT INTO agents (name, session, resume, resume_at) VALUES (:name, :session, :resume, :resume_at)
ON CONFLICT (name) DO UPDATE SET session = excluded.session, resume = excluded.resume, resume_at = excluded.resume_at

-- name: put_turn
INSERT INTO turns (agent, job, started_at, ended_at, failure, input_tokens, cache_write_tokens,
  cache_read_tokens, output_tokens, cost_usd)
VALUES (:agent, :job, :started_at, :ended_at, :failure, :input_tokens, :cache_write_tokens,
  :cache_read_tokens, :output_tokens, :cost_usd)

-- name: turns_between
SELECT * FROM turns WHERE agent = :agent AND started_at < :until AND ended_at > :since ORDER BY started_at DESC LIMIT :limit

-- What a person asked for that an agent worked on last, in one of its last turns.
-- name: last_asked
SELECT m.id, m.number, m.speaker, m.body, t.ended_at
FROM (SELECT job, started_at, ended_at FROM turns WHERE agent = :agent ORDER BY started_at DESC LIMIT 20) t
JOIN dispatch_queue q ON q.id = t.job JOIN messages m ON m.id = q.message_id
WHERE m.kind = 'human' ORDER BY t.started_at DESC LIMIT 1

-- name: event_of_message
SELECT event_id FROM messages WHERE id = :id

-- name: last_number
SELECT COALESCE(MAX(number), 0) AS number FROM messages

-- name: open_jobs
SELECT * FROM dispatch_queue WHERE state IN ('pending', 'failed', 'active') ORDER BY id DESC LIMIT 200

-- name: steward_done
UPDATE dispatch_queue SET state = 'done', attempts = attempts + 1, started_at = :now, ended_at = :now,
  answer_id = :answer_id, error = NULL
WHERE id = :id AND state IN ('pending', 'failed') RETURNING *

-- name: steward_answer
SELECT m.body, m.meta FROM dispatch_queue q JOIN messages m ON m.id = q.answer_id
WHERE q.message_id = :message_id AND q.agent = 'RELAY'

-- name: any_held
SELECT 1 AS held FROM held LIMIT 1

-- name: hold
INSERT INTO held (message_id, agents) VALUES (:message_id, :agents)
ON CONFLICT (message_id) DO UPDATE SET agents = excluded.agents

-- name: release_held
DELETE FROM held

-- The lanes of helpers that a lane has open: those of an agent's helpers have its name and a number.
-- name: open_helpers
SELECT lane FROM lanes WHERE session = :session AND lane > :first AND lane < :behind AND parent = :parent AND folded = 0
ORDER BY lane
