-- name: graph_files
SELECT blob, language, facts, symbols, trouble, used_at FROM graph_files WHERE extractor = :extractor

-- name: put_graph_file
INSERT INTO graph_files (blob, language, extractor, facts, symbols, trouble, used_at)
VALUES (:blob, :language, :extractor, :facts, :symbols, :trouble, :now)
ON CONFLICT (blob, language) DO UPDATE SET
  extractor = excluded.extractor, facts = excluded.facts, symbols = excluded.symbols,
  trouble = excluded.trouble, used_at = excluded.used_at

-- name: use_graph_file
UPDATE graph_files SET used_at = :now WHERE blob = :blob AND language = :language

-- name: prune_graph_files
DELETE FROM graph_files WHERE used_at < :before OR extractor < :extractor

-- name: graph_snapshot
SELECT digest, edges, good FROM graph_snapshots WHERE repo = :repo AND extractor = :extractor

-- name: put_graph_snapshot
INSERT INTO graph_snapshots (repo, extractor, digest, edges, good, saved_at)
VALUES (:repo, :extractor, :digest, :edges, :good, :now)
ON CONFLICT (repo) DO UPDATE SET
  extractor = excluded.extractor, digest = excluded.digest, edges = excluded.edges, good = excluded.good,
  saved_at = excluded.saved_at

-- name: prune_graph_snapshots
DELETE FROM graph_snapshots WHERE saved_at < :before
