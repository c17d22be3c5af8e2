-- General, by giving no row: what covers leases of the session that are over, which go with it; and a claim's file, whose
-- mode stays. Neither look depends on the function, so the server asks them first, and then may not call it at all.
-- name: acquire_lock
SELECT outcome, (lock).* FROM relay_acquire_lock(:agent, :session, :person, :lease_s, :claim_s, :kind, :key, :path,
  CAST(:shape AS jsonb), CAST(:above AS text[]), CAST(:bases AS text[]), :low, :high, :mode, :ttl_s, :reason)
WHERE NOT EXISTS (SELECT FROM file_locks own WHERE own.agent_id = :agent AND own.session_id = :session
    AND own.expires_at <= relay_now()
    AND (own.key > :low AND own.key < :high OR own.base >= :whole AND own.base < :high))
  AND (:mode = 'exclusive' OR NOT EXISTS (SELECT FROM file_locks own WHERE own.key = :key AND own.kind = :kind
    AND own.agent_id = :agent AND own.session_id = :session AND own.task_id IS NOT NULL))

-- name: release_lock
SELECT outcome, (lock).* FROM relay_release_lock(:agent, :session, :person, :lease_s, :claim_s, :kind, :key, :token)

-- name: claim_work
SELECT outcome, (task).* FROM relay_claim_work(:agent, :session, :person, :lease_s, :claim_s, :agent_type,
  CAST(:types AS text[]), :for_s)

-- name: complete_work
SELECT outcome, (task).* FROM relay_complete_work(:agent, :session, :person, :lease_s, :claim_s, :id, :status, :result,
  :error_message, :fence)
