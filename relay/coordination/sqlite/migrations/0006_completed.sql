-- What an agent completed lately is asked for at every merge of its work, however long the room is used.
CREATE INDEX work_completed ON work_queue (claimed_by, completed_at) WHERE status = 'completed';
