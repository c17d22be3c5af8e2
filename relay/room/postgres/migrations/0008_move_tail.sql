-- Move a member's place in its transcript from where it stands, in one statement beside others of its kind. False, and
-- nothing changed: it stands elsewhere or nowhere, or `relay archive` has announced another file under `announced`.
-- That is a general writer, so what is read behind the shared lock stays so until the end of this transaction. It
-- appends no event.
CREATE FUNCTION relay_move_tail(own text, announced text,
  at_offset bigint, at_head_len bigint, at_head_sha text, at_last_len bigint, at_last_sha text,
  at_history_until bigint, at_upto bigint, at_ahead text, at_blank text,
  to_offset bigint, to_head_len bigint, to_head_sha text, to_last_len bigint, to_last_sha text,
  to_history_until bigint, to_upto bigint, to_ahead text, to_blank text
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  PERFORM relay_lock_shared();
  UPDATE tail t SET "offset" = to_offset, head_len = to_head_len, head_sha = to_head_sha, last_len = to_last_len,
    last_sha = to_last_sha, history_until = to_history_until, upto = to_upto, ahead = to_ahead, blank = to_blank
  WHERE t.member = own
    AND (t."offset", t.head_len, t.head_sha, t.last_len, t.last_sha, t.history_until, t.upto, t.ahead, t.blank)
      = (at_offset, at_head_len, at_head_sha, at_last_len, at_last_sha, at_history_until, at_upto, at_ahead, at_blank)
    AND NOT EXISTS (SELECT FROM settings s WHERE s.name = announced AND s.value <> '');
  RETURN FOUND;
END $$;
