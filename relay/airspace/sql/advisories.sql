-- name: open_advisory
INSERT INTO advisories (id, founders, opened_at, closed_at, worst, said, outcome, mark, body)
VALUES (:id, :founders, :opened_at, :closed_at, :worst, :said, :outcome, :mark, :body)
ON CONFLICT DO NOTHING RETURNING id

-- name: standing_advisories
SELECT body FROM advisories WHERE closed_at IS NULL ORDER BY id

-- name: advisory
SELECT body FROM advisories WHERE id = :id

-- name: latest_advisories
SELECT body FROM advisories ORDER BY opened_at DESC, id DESC LIMIT :limit

-- name: ended_since
SELECT body FROM advisories WHERE closed_at >= :since AND (outcome IS NULL OR outcome <> 'true') ORDER BY closed_at, id

-- name: put_advisory_message
INSERT INTO advisory_messages (message_id, advisory_id) VALUES (:message_id, :advisory_id)

-- name: advisory_of_message
SELECT advisory_id FROM advisory_messages WHERE message_id = :message_id

-- name: pair_tracks
SELECT a, b, track, changed_at FROM advisory_pairs ORDER BY a, b

-- name: keep_pair
INSERT INTO advisory_pairs (a, b, track, changed_at) VALUES (:a, :b, :track, :changed_at)
ON CONFLICT (a, b) DO UPDATE SET track = excluded.track, changed_at = excluded.changed_at

-- name: forget_pair
DELETE FROM advisory_pairs WHERE a = :a AND b = :b

-- name: forget_pairs
DELETE FROM advisory_pairs

-- name: open_lookaheads
SELECT a, b, began_at, worked, asked FROM lookaheads WHERE outcome = 'open' ORDER BY a, b

-- name: begin_lookahead
INSERT INTO lookaheads (a, b, began_at, worked, asked) VALUES (:a, :b, :began_at, :worked, :asked)
ON CONFLICT DO NOTHING

-- name: keep_lookahead
UPDATE lookaheads SET ended_at = :ended_at, outcome = :outcome, worked = :worked, asked = :asked
WHERE a = :a AND b = :b AND outcome = 'open'

-- name: end_lookaheads
UPDATE lookaheads SET ended_at = :now, outcome = 'unknown' WHERE outcome = 'open'

-- name: lookahead_counts
SELECT outcome, COUNT(*) AS lookaheads FROM lookaheads WHERE outcome IN ('open', 'true', 'false', 'unknown')
GROUP BY outcome ORDER BY outcome

-- name: told_edits
SELECT agent, other, path FROM told_edits ORDER BY agent, other, path

-- name: put_told_edit
INSERT INTO told_edits (agent, other, path) VALUES (:agent, :other, :path) ON CONFLICT DO NOTHING

-- name: forget_told_edit
DELETE FROM told_edits WHERE agent = :agent AND other = :other AND path = :path

-- name: declare_intent
INSERT INTO declared_intents (agent, path, source, session, declared_at, expires_at)
VALUES (:agent, :path, :source, :session, :declared_at, :expires_at)
ON CONFLICT (agent, path, source, session) DO UPDATE SET declared_at = excluded.declared_at, expires_at = excluded.expires_at

-- name: clear_intents
DELETE FROM declared_intents WHERE agent = :agent AND (source = :source OR :source = '')

-- name: end_intents
DELETE FROM declared_intents WHERE agent = :agent AND session = :session

-- name: end_intents_of_work
DELETE FROM declared_intents WHERE agent = :agent AND declared_at <= :until

-- name: clear_session_intents
DELETE FROM declared_intents WHERE agent = :agent AND source = :source AND session = :session

-- name: clear_other_word
DELETE FROM declared_intents WHERE agent = :agent AND source = :source
  AND (session = :session OR session = '' OR :session = '')

-- name: forget_intents
DELETE FROM declared_intents WHERE expires_at <= :now

-- name: intents
SELECT agent, path, source, expires_at FROM declared_intents WHERE expires_at > :now ORDER BY agent, declared_at, path

-- name: put_sample
INSERT INTO airspace_samples (pos, at) VALUES (:pos, :at)

-- name: forget_samples
DELETE FROM airspace_samples WHERE at < :before

-- name: count_samples
SELECT COUNT(*) AS samples FROM airspace_samples WHERE at >= :since AND at <= :until
