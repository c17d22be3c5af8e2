-- What members tell each other of the airspace is relay's alone, as all tables of the fleet are.
DO $$ BEGIN PERFORM relay_secure(); END $$;
