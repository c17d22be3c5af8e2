-- Where each member of the fleet stands in its own transcript file; the only relay of a room is the member ''. Entries
-- up to the number `upto` stand in the file. `ahead`: numbers behind it that stand there too, `blank`: bytes before
-- `offset` that are to be overwritten with spaces; both are JSON lists of [first, behind the last].
CREATE TABLE tail_of_members (
  member TEXT PRIMARY KEY,
  offset INTEGER NOT NULL,
  head_len INTEGER NOT NULL,
  head_sha TEXT NOT NULL,
  last_len INTEGER NOT NULL,
  last_sha TEXT NOT NULL,
  history_until INTEGER NOT NULL DEFAULT 0,
  upto INTEGER NOT NULL DEFAULT 0,
  ahead TEXT NOT NULL DEFAULT '[]',
  blank TEXT NOT NULL DEFAULT '[]'
) WITHOUT ROWID;

-- What the outbox holds is what the file lacks.
INSERT INTO tail_of_members (member, offset, head_len, head_sha, last_len, last_sha, history_until, upto, ahead)
SELECT '', offset, head_len, head_sha, last_len, last_sha, history_until,
  COALESCE((SELECT MIN(number) - 1 FROM outbox), (SELECT COALESCE(MAX(number), 0) FROM messages)),
  (SELECT json_group_array(json_array(first, behind)) FROM (
    SELECT number + 1 AS first,
      COALESCE(LEAD(number) OVER (ORDER BY number), (SELECT MAX(number) + 1 FROM messages)) AS behind
    FROM outbox ORDER BY number
  ) WHERE behind > first)
FROM tail;

DROP TABLE tail;
ALTER TABLE tail_of_members RENAME TO tail;
DROP TABLE outbox;
