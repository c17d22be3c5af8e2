-- Only relay's own roles call the function that moves a member's place in its transcript.
DO $$ BEGIN PERFORM relay_secure(); END $$;
