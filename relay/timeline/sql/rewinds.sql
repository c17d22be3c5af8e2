-- name: put_rewind
INSERT INTO rewinds (pos, event, kind, rewind, lane, target, place, base, before, after, removed, state, author)
VALUES (:pos, :event, :kind, :rewind, :lane, :target, :place, :base, :before, :after, :removed, :state, :author)

-- name: set_rewind_state
UPDATE rewinds SET state = :state WHERE pos = :pos

-- name: rewind_of_event
SELECT r.* FROM events e JOIN rewinds r ON r.pos = e.pos WHERE e.id = :event

-- name: rewind_to_undo
SELECT * FROM rewinds WHERE kind = 'timeline.rewound' AND state IN ('done', 'partly') ORDER BY pos DESC LIMIT 1

-- name: rewind_to_redo
SELECT u.* FROM rewinds u JOIN rewinds r ON r.pos = u.rewind
WHERE u.kind = 'timeline.undone' AND u.state IN ('done', 'partly') AND r.state IN ('undone', 'partly') AND u.before <> u.after
AND NOT EXISTS (SELECT 1 FROM rewinds d WHERE d.rewind = u.rewind AND d.state <> 'given_up' AND d.pos > u.pos)
AND NOT EXISTS (
    SELECT 1 FROM rewinds n WHERE n.kind = 'timeline.rewound' AND n.state <> 'given_up' AND n.pos > u.pos
)
ORDER BY u.pos DESC LIMIT 1

-- name: begun_rewinds
SELECT * FROM rewinds WHERE state = 'begun' ORDER BY pos

-- name: later_operations
SELECT * FROM rewinds WHERE rewind = :rewind AND pos > :rewind AND state IN ('done', 'partly') ORDER BY pos

-- name: rewinds_after
SELECT * FROM rewinds WHERE pos > :after AND kind = 'timeline.rewound' AND state IN ('begun', 'done')

-- name: rewinds_standing
-- The newest of what was asked about a rewind says whether it stands, also while it is being done.
SELECT r.* FROM rewinds r WHERE r.kind = 'timeline.rewound' AND r.state <> 'given_up' AND (SELECT o.kind FROM rewinds o
  WHERE o.rewind = r.pos AND o.state <> 'given_up' ORDER BY o.pos DESC LIMIT 1) <> 'timeline.undone' ORDER BY r.pos

-- name: clear_rewinds
DELETE FROM rewinds

-- name: rewound_branches
SELECT place, lane FROM rewinds WHERE kind = 'timeline.rewound' AND target = 'branch' ORDER BY pos
