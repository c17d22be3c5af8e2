-- What lies below a match is covered, whatever its name: a name with an extension is a file only where the other one
-- does not say that it is a folder (relay.coordination.patterns). Rows of before keep their shapes: what is said of a
-- name within one is read from the name.

-- Where more follows: does it say of a name with an extension that it is a folder? By that very name, or by one with
-- an extension itself.
CREATE FUNCTION relay_is_named(name text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT name !~ '[\x01\x02]' OR name COLLATE "C" ~ '^.+\.[A-Za-z][A-Za-z0-9_]{0,9}$'
    AND lower(substring(name FROM '[^.]*$') COLLATE "C") NOT IN
      ('d', 'git', 'app', 'bundle', 'framework', 'lproj', 'xcassets', 'xcodeproj', 'xcworkspace')
$$;

-- Whether two alternatives ({names, file}) can meet: both automata walked at once, a name a step.
CREATE OR REPLACE FUNCTION relay_shapes_meet(a jsonb, b jsonb) RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
  x text[] := ARRAY(SELECT jsonb_array_elements_text(a->'names'));
  y text[] := ARRAY(SELECT jsonb_array_elements_text(b->'names'));
  n integer := cardinality(x);
  m integer := cardinality(y);
  folders CONSTANT text := E'\x01\x01';
  seen boolean[] := array_fill(false, ARRAY[(cardinality(x) + 1) * (cardinality(y) + 1)]);
  at integer;
BEGIN
  seen[1] := true;
  FOR i IN 0..n LOOP FOR j IN 0..m LOOP
    at := i * (m + 1) + j + 1;
    CONTINUE WHEN NOT seen[at];
    IF i = n OR j = m THEN
      -- One is at its end: unless it is a file, what is left of the other can be some path below it.
      IF NOT (CASE WHEN i = n THEN a ELSE b END->>'file')::boolean
         OR folders = ALL (CASE WHEN i = n THEN y[j + 1:m] ELSE x[i + 1:n] END) THEN
        RETURN true;
      END IF;
    ELSIF x[i + 1] = folders OR y[j + 1] = folders THEN
      seen[at + 1] := true;
      seen[at + m + 1] := true;
    ELSIF relay_names_meet(x[i + 1], y[j + 1]) THEN
      IF i + 1 = n AND relay_is_named(y[j + 1]) OR j + 1 = m AND relay_is_named(x[i + 1]) THEN RETURN true; END IF;
      seen[at + m + 2] := true;
    END IF;
  END LOOP; END LOOP;
  RETURN false;
END $$;

-- Whether two locks are about something in common: relay.coordination.patterns.overlaps, of shapes that were made there.
CREATE OR REPLACE FUNCTION relay_overlaps(
  a_kind text, a_key text, a_shape jsonb, b_kind text, b_key text, b_shape jsonb
) RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  IF a_kind = 'key' OR b_kind = 'key' THEN RETURN a_kind = b_kind AND a_key = b_key; END IF;
  RETURN EXISTS (
    SELECT FROM jsonb_array_elements(a_shape) AS a, jsonb_array_elements(b_shape) AS b WHERE relay_shapes_meet(a, b));
END $$;

-- A path that is a folder names it, which is now said above.
DROP FUNCTION relay_within(jsonb, jsonb);
