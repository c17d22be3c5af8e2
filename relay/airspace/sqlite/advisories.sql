-- name: keep_advisory
UPDATE advisories SET founders = COALESCE(:founders, founders), closed_at = :closed_at, worst = :worst, said = :said, outcome = :outcome, mark = :mark,
  body = :body WHERE id = :id

-- name: advisory_counts
SELECT worst, outcome, mark, COUNT(*) AS advisories FROM advisories WHERE said = 1 GROUP BY worst, outcome, mark

-- name: samples
SELECT e.outputs FROM (
  SELECT pos, ROW_NUMBER() OVER (ORDER BY at, pos) AS place FROM airspace_samples WHERE at >= :since AND at <= :until
) s JOIN events e ON e.pos = s.pos WHERE (s.place - 1) % :every = 0 ORDER BY s.pos
