-- name: numbers_among
SELECT id, number FROM messages WHERE id IN (SELECT value FROM json_each(:ids))

-- What names or addresses one reader, or answers it; the caller looks at the names once more.
-- name: addressed_after
SELECT m.* FROM messages m WHERE m.pos > :after AND m.speaker <> :name AND (m.body LIKE :named ESCAPE '!' OR m.body LIKE '%@all%' OR m.addressed LIKE :to ESCAPE '!'
  OR EXISTS (SELECT 1 FROM messages r WHERE r.id = m.in_reply_to AND r.speaker = :name))
ORDER BY m.pos LIMIT :limit

-- name: newest_addressed
SELECT m.* FROM messages m WHERE m.number > (SELECT COALESCE(MAX(number), 0) - :most FROM messages) AND m.speaker <> :name AND (m.body LIKE :named ESCAPE '!' OR m.body LIKE '%@all%' OR m.addressed LIKE :to ESCAPE '!'
  OR EXISTS (SELECT 1 FROM messages r WHERE r.id = m.in_reply_to AND r.speaker = :name))
ORDER BY m.number DESC LIMIT :limit

-- name: messages_by_ids
SELECT * FROM messages WHERE id IN (SELECT value FROM json_each(:ids)) ORDER BY number

-- name: replies_of
SELECT thread, COUNT(*) AS replies FROM messages
WHERE thread IN (SELECT value FROM json_each(:ids)) AND kind <> 'system'
AND json_extract(meta, '$.deleted') IS NULL GROUP BY thread

-- name: entries_since
SELECT COUNT(*) AS entries FROM (SELECT 1 FROM messages WHERE at >= :since LIMIT :most)

-- name: search
SELECT m.* FROM messages_fts JOIN messages m ON m.number = messages_fts.rowid
WHERE messages_fts MATCH (SELECT group_concat('"' || replace(value, '"', '""') || '"*', ' ') FROM json_each(:words))
ORDER BY messages_fts.rowid DESC LIMIT :limit

-- name: put_tail
INSERT INTO tail (member, offset, head_len, head_sha, last_len, last_sha, history_until, upto, ahead, blank)
VALUES (:member, :offset, :head_len, :head_sha, :last_len, :last_sha, :history_until, :upto, :ahead, :blank)
ON CONFLICT (member) DO UPDATE SET offset = excluded.offset, head_len = excluded.head_len,
  head_sha = excluded.head_sha, last_len = excluded.last_len, last_sha = excluded.last_sha,
  history_until = excluded.history_until, upto = excluded.upto, ahead = excluded.ahead, blank = excluded.blank

-- As the single write of a member that appended: only from where it stands, and while no exchange is announced.
-- name: move_tail
UPDATE tail SET offset = :new_offset, head_len = :new_head_len, head_sha = :new_head_sha, last_len = :new_last_len,
  last_sha = :new_last_sha, history_until = :new_history_until, upto = :new_upto, ahead = :new_ahead, blank = :new_blank
WHERE member = :member
  AND (offset, head_len, head_sha, last_len, last_sha, history_until, upto, ahead, blank)
    = (:offset, :head_len, :head_sha, :last_len, :last_sha, :history_until, :upto, :ahead, :blank)
  AND NOT EXISTS (SELECT 1 FROM settings WHERE name = :announced AND value <> '')
RETURNING 1 AS moved

-- name: jobs_of_messages
SELECT * FROM dispatch_queue WHERE message_id IN (SELECT value FROM json_each(:ids)) ORDER BY id DESC LIMIT :limit

-- name: claim
UPDATE dispatch_queue SET state = 'active', attempts = attempts + 1, holder = :holder, lease_until = :lease_until,
  started_at = :now, ended_at = NULL, error = NULL, error_class = NULL, heard_at = NULL, heard_after = NULL
WHERE agent = :agent AND state IN ('pending', 'failed')
  AND NOT EXISTS (SELECT 1 FROM dispatch_queue a WHERE a.agent = :agent AND a.state = 'active')
  AND (SELECT w.not_before FROM dispatch_queue w WHERE w.agent = :agent AND w.state IN ('pending', 'failed')
       ORDER BY w.id LIMIT 1) NOT BETWEEN :now + 0.000001 AND :far
  AND id IN (SELECT f.id FROM dispatch_queue f WHERE f.agent = :agent AND f.state IN ('pending', 'failed')
             ORDER BY f.id LIMIT :most)
RETURNING *

-- name: end_jobs
UPDATE dispatch_queue SET state = :state, error = :error, error_class = :error_class, answer_id = :answer_id,
  not_before = :not_before, ended_at = :now, holder = NULL, lease_until = NULL,
  folded_into = CASE WHEN id = :primary_job THEN NULL ELSE :primary_job END,
  interrupted = CASE WHEN :interrupted THEN MAX(1, interrupted) ELSE 0 END
WHERE id IN (SELECT value FROM json_each(:ids)) AND state = 'active' AND holder = :holder
RETURNING *

-- name: refund_attempt
UPDATE dispatch_queue SET attempts = MAX(0, attempts - 1) WHERE id IN (SELECT value FROM json_each(:ids))

-- name: state_counts
SELECT state, COUNT(*) AS jobs FROM dispatch_queue GROUP BY state

-- name: breakers
SELECT * FROM breakers

-- name: agents
SELECT * FROM agents

-- name: set_shown
UPDATE agents SET shown_number = MAX(shown_number, :shown_number) WHERE name = :name

-- name: spent
SELECT COUNT(*) FILTER (WHERE started_at > :hour_ago) AS turns_hour,
  COALESCE(SUM(input_tokens), 0) AS input, COALESCE(SUM(cache_write_tokens), 0) AS cache_write,
  COALESCE(SUM(cache_read_tokens), 0) AS cache_read, COALESCE(SUM(output_tokens), 0) AS output,
  COALESCE(SUM(cost_usd), 0) AS usd,
  MIN(started_at) FILTER (WHERE started_at > :hour_ago) AS oldest_in_hour, MIN(started_at) AS oldest,
  MAX(ended_at) AS newest
FROM turns WHERE agent = :agent AND started_at > :day_ago

-- What each agent used, by hours behind `start`; the known agents are few, so their index is used.
-- name: used_by_hour
SELECT t.agent, CAST((t.started_at - :start) / 3600 AS INTEGER) AS hour, COUNT(*) AS turns,
  SUM(t.input_tokens) AS input,
  SUM(t.cache_write_tokens) AS cache_write,
  SUM(t.cache_read_tokens) AS cache_read,
  SUM(t.output_tokens) AS output, SUM(t.cost_usd) AS usd,
  COUNT(*) FILTER (WHERE t.cost_usd = 0) AS unpriced
FROM agents a CROSS JOIN turns t ON t.agent = a.name AND t.started_at >= :start
GROUP BY t.agent, 2 ORDER BY 2, t.agent

-- name: last_skips
SELECT * FROM dispatch_queue INDEXED BY dispatch_given_up WHERE state IN ('skipped', 'dead') ORDER BY ended_at DESC LIMIT :limit

-- name: events_of_messages
SELECT id, event_id FROM messages WHERE id IN (SELECT value FROM json_each(:ids))

-- name: held_jobs
SELECT * FROM dispatch_queue WHERE id IN (SELECT value FROM json_each(:ids)) AND state = 'active'
  AND holder = :holder ORDER BY id

-- name: held
SELECT h.message_id, h.agents FROM held h CROSS JOIN messages m ON m.id = h.message_id ORDER BY m.number

-- What people asked of these agents, the newest first.
-- name: asked_of
SELECT q.agent, m.body FROM dispatch_queue q JOIN messages m ON m.id = q.message_id
WHERE q.agent IN (SELECT value FROM json_each(:agents)) AND q.state IN ('active', 'done') AND m.kind = 'human'
ORDER BY q.id DESC LIMIT :limit
