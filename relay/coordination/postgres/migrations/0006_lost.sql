-- `lost_at`: when a lease was over that another has taken over since; then `expires_at` is 0, so that no clock that is set
-- back brings it to life again. It stays on record for a day, as one that ran out does.
ALTER TABLE file_locks ADD COLUMN lost_at double precision;
