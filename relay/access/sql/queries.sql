-- name: put_link
INSERT INTO sign_in_links (digest, expires_at) VALUES (:digest, :expires_at)

-- name: take_link
DELETE FROM sign_in_links WHERE digest = :digest AND expires_at > :now

-- name: put_session
INSERT INTO page_sessions (digest, created_at, expires_at) VALUES (:digest, :now, :expires_at)

-- name: session
SELECT expires_at FROM page_sessions WHERE digest = :digest AND expires_at > :now

-- name: renew_session
UPDATE page_sessions SET expires_at = :expires_at WHERE digest = :digest AND expires_at > :now

-- name: end_session
DELETE FROM page_sessions WHERE digest = :digest

-- name: forget_links
DELETE FROM sign_in_links WHERE expires_at <= :now

-- name: forget_sessions
DELETE FROM page_sessions WHERE expires_at <= :now
