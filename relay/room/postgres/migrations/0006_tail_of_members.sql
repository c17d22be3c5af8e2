-- Where each member of the fleet stands in its own transcript file; the only relay of a room is the member ''. Entries
-- up to the number `upto` stand in the file. `ahead`: numbers behind it that stand there too, `blank`: bytes before
-- `offset` that are to be overwritten with spaces; both are JSON lists of [first, behind the last].
ALTER TABLE tail DROP COLUMN id;
ALTER TABLE tail
  ADD COLUMN member TEXT COLLATE "C" PRIMARY KEY DEFAULT '',
  ADD COLUMN upto BIGINT NOT NULL DEFAULT 0,
  ADD COLUMN ahead TEXT COLLATE "C" NOT NULL DEFAULT '[]',
  ADD COLUMN blank TEXT COLLATE "C" NOT NULL DEFAULT '[]';

-- What the outbox holds is what the file lacks.
UPDATE tail SET
  upto = COALESCE((SELECT MIN(number) - 1 FROM outbox), (SELECT COALESCE(MAX(number), 0) FROM messages)),
  ahead = COALESCE((
    SELECT CAST(json_agg(json_build_array(first, behind) ORDER BY first) AS text) FROM (
      SELECT number + 1 AS first,
        COALESCE(LEAD(number) OVER (ORDER BY number), (SELECT MAX(number) + 1 FROM messages)) AS behind
      FROM outbox
    ) AS gaps WHERE behind > first), '[]');

DROP TABLE outbox;
