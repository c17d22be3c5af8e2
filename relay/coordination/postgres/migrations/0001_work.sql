-- 004, "Work Queue": the tasks of the room. A projection of the events task.created and task.changed.
-- `number` is what people quote (#3). Times are Unix seconds. `rank` orders what is ready: submit time plus a
-- step a priority, so nothing starves. `fence` grows whenever the claim changes hands or is taken back: who
-- holds an older one holds nothing. `attempts` counts the attempts that are over.
CREATE TABLE work_queue (
  id TEXT COLLATE "C" PRIMARY KEY,
  number BIGINT NOT NULL UNIQUE,
  task_type TEXT COLLATE "C" NOT NULL,
  task_description TEXT COLLATE "C" NOT NULL,
  input_data TEXT COLLATE "C",
  priority BIGINT NOT NULL DEFAULT 5 CHECK (priority BETWEEN 1 AND 10),
  rank DOUBLE PRECISION NOT NULL,
  status TEXT COLLATE "C" NOT NULL CHECK (status IN ('pending', 'claimed', 'completed', 'failed', 'blocked', 'dead')),
  depends_on TEXT COLLATE "C" NOT NULL DEFAULT '[]',
  claimed_by TEXT COLLATE "C",
  claimed_at DOUBLE PRECISION,
  lease_until DOUBLE PRECISION,
  fence BIGINT NOT NULL DEFAULT 0,
  attempts BIGINT NOT NULL DEFAULT 0,
  result TEXT COLLATE "C",
  error_message TEXT COLLATE "C",
  created_by TEXT COLLATE "C" NOT NULL,
  created_at DOUBLE PRECISION NOT NULL,
  updated_at DOUBLE PRECISION NOT NULL,
  completed_at DOUBLE PRECISION,
  archived_at DOUBLE PRECISION
);
CREATE INDEX work_ready ON work_queue (rank, number) WHERE status = 'pending' AND archived_at IS NULL;
CREATE INDEX work_shown ON work_queue (number) WHERE archived_at IS NULL;

-- One row a task event, by its place in the log: what `/undo` walks back through. `undoable` is 0 for an undo
-- itself; `undone_by` names the undo, so no change is brought back twice.
CREATE TABLE task_changes (
  pos BIGINT PRIMARY KEY,
  event_id TEXT COLLATE "C" NOT NULL UNIQUE,
  undoable INTEGER NOT NULL,
  undone_by TEXT COLLATE "C"
);
CREATE INDEX task_changes_to_undo ON task_changes (pos) WHERE undoable = 1 AND undone_by IS NULL;
