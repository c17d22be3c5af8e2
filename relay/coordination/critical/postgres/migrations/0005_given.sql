-- A task as its events have it, with to whom it was given and what it was imported from.
CREATE OR REPLACE FUNCTION relay_task_record(w work_queue) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN '{' || coalesce('"archived_at":' || relay_json_float(w.archived_at) || ',', '')
    || '"attempts":' || w.attempts
    || coalesce(',"claimed_at":' || relay_json_float(w.claimed_at), '')
    || coalesce(',"claimed_by":' || to_json(w.claimed_by), '')
    || coalesce(',"claimed_session":' || to_json(w.claimed_session), '')
    || coalesce(',"claimed_type":' || to_json(w.claimed_type), '')
    || coalesce(',"completed_at":' || relay_json_float(w.completed_at), '')
    || ',"created_at":' || relay_json_float(w.created_at)
    || ',"created_by":' || to_json(w.created_by)
    || ',"depends_on":' || CASE w.depends_on WHEN '[]' THEN '[]' ELSE relay_json_sorted(w.depends_on::json) END
    || coalesce(',"error_message":' || to_json(w.error_message), '')
    || ',"fence":' || w.fence
    || ',"files":' || CASE w.files WHEN '[]' THEN '[]' ELSE relay_json_sorted(w.files::json) END
    || ',"given":' || CASE w.given WHEN '[]' THEN '[]' ELSE relay_json_sorted(w.given::json) END
    || ',"id":' || to_json(w.id)
    || coalesce(',"input_data":' || relay_json_sorted(w.input_data::json), '')
    || coalesce(',"lease_s":' || relay_json_float(w.lease_s), '')
    || coalesce(',"lease_until":' || relay_json_float(w.lease_until), '')
    || ',"max_attempts":' || w.max_attempts
    || ',"not_before":' || relay_json_float(w.not_before)
    || coalesce(',"note":' || to_json(w.note), '')
    || ',"number":' || w.number
    || ',"on_failed":' || to_json(w.on_failed)
    || ',"past_claims":' || CASE w.past_claims WHEN '[]' THEN '[]' ELSE relay_json_sorted(w.past_claims::json) END
    || ',"priority":' || w.priority
    || ',"rank":' || relay_json_float(w.rank)
    || coalesce(',"result":' || relay_json_sorted(w.result::json), '')
    || coalesce(',"source":' || to_json(w.source), '')
    || coalesce(',"source_sha":' || to_json(w.source_sha), '')
    || ',"status":' || to_json(w.status)
    || ',"task_description":' || to_json(w.task_description)
    || ',"task_type":' || to_json(w.task_type)
    || ',"updated_at":' || relay_json_float(w.updated_at) || '}';
END $$;
