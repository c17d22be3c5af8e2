-- By whose word an entry is there: 0 a line that proves nobody, 1 an agent, 2 a person. No lesser word ends it. What is of
-- an archived event counts as a person's.
ALTER TABLE knowledge_entries ADD COLUMN standing INTEGER NOT NULL DEFAULT 2;
UPDATE knowledge_entries SET standing = CASE
    WHEN CAST(v.outputs AS jsonb)->'message'->'meta'->'unverified' IS NOT NULL THEN 0
    WHEN CAST(v.outputs AS jsonb)->'message'->>'kind' = 'human' OR v.lane LIKE 'human:%' THEN 2
    ELSE 1 END
  FROM events v WHERE v.id = knowledge_entries.event_id AND knowledge_entries.extracted_by <> 'person';
