-- The tables of the fleet are relay's alone: no agent's own login reads who else is here, or says who leads.
DO $$ BEGIN PERFORM relay_secure(); END $$;
