-- name: put_exploration
INSERT INTO explorations (number, state, config, asker, cause, at, base, winner, recommendation, matrix, taken, merged,
  trouble)
VALUES (:number, :state, :config, :asker, :cause, :at, :base, :winner, :recommendation, :matrix, :taken, :merged, :trouble)
ON CONFLICT (number) DO UPDATE SET state = excluded.state, base = excluded.base, winner = excluded.winner,
  recommendation = excluded.recommendation, matrix = excluded.matrix, taken = excluded.taken, merged = excluded.merged,
  trouble = excluded.trouble

-- name: put_variant
INSERT INTO exploration_variants (exploration, name, place, agent, branch, status, detail, attempt, seconds, tokens,
  tool_calls, cost_usd, events, conversation, at_commit, tree, ref, files, metrics, notes, passing, score)
VALUES (:exploration, :name, :place, :agent, :branch, :status, :detail, :attempt, :seconds, :tokens, :tool_calls, :cost_usd,
  :events, :conversation, :at_commit, :tree, :ref, :files, :metrics, :notes, :passing, :score)
ON CONFLICT (exploration, name) DO UPDATE SET branch = excluded.branch, status = excluded.status, detail = excluded.detail,
  attempt = excluded.attempt, seconds = excluded.seconds, tokens = excluded.tokens, tool_calls = excluded.tool_calls,
  cost_usd = excluded.cost_usd, events = excluded.events, conversation = excluded.conversation,
  at_commit = excluded.at_commit, tree = excluded.tree, ref = excluded.ref, files = excluded.files,
  metrics = excluded.metrics, notes = excluded.notes, passing = excluded.passing, score = excluded.score

-- name: exploration
SELECT * FROM explorations WHERE number = :number

-- name: variants_of
SELECT * FROM exploration_variants WHERE exploration = :number ORDER BY place

-- name: open_explorations
SELECT * FROM explorations WHERE state NOT IN ('done', 'ended') ORDER BY number

-- name: newest_explorations
SELECT * FROM explorations ORDER BY number DESC LIMIT :limit
