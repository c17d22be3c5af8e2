-- placeholder
CREATE FUNCTION relay_become(agent text, session text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN END $$;
