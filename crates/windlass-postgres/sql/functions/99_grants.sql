-- Nobody may call or read anything who was not granted it.
REVOKE ALL ON ALL ROUTINES IN SCHEMA {schema} FROM PUBLIC;

-- What was granted on functions that 00_replaced.sql removed.
DO $$
BEGIN
    EXECUTE coalesce(nullif(current_setting('windlass.grants', true), ''), 'SELECT 1');
END $$;
