-- `alone`: whether it is the only one of its transaction, which the store says.

-- name: acquire_lock
SELECT outcome, relay_now() AS now, (lock).* FROM relay_acquire_lock(:agent, :session, :person, :lease_s, :claim_s, :kind,
  :key, :path, CAST(:shape AS jsonb), CAST(:above AS text[]), CAST(:bases AS text[]), :low, :whole, :high, :mode, :ttl_s,
  :reason, :alone)

-- name: release_lock
SELECT outcome, (lock).* FROM relay_release_lock(:agent, :session, :person, :lease_s, :claim_s, :kind, :key, :token,
  :alone)

-- name: claim_work
SELECT outcome, (task).* FROM relay_claim_work(:agent, :session, :person, :lease_s, :claim_s, :agent_type,
  CAST(:types AS text[]), :for_s, :alone)

-- name: complete_work
SELECT outcome, (task).* FROM relay_complete_work(:agent, :session, :person, :lease_s, :claim_s, :id, :status, :result,
  :error_message, :fence, :alone)
