-- Who asks for work of some types is told how much of these is blocked, however much there is of others.
DROP INDEX work_blocked;
CREATE INDEX work_blocked ON work_queue (task_type) WHERE status = 'blocked' AND archived_at IS NULL;
