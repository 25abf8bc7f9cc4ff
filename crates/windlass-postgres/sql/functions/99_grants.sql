-- Nobody may call or read anything who was not granted it: what this migration defined, and nothing that others keep in the schema.
DO $$
BEGIN
    EXECUTE (SELECT format('REVOKE ALL ON ROUTINE %s FROM PUBLIC', string_agg(p.oid::regprocedure::text, ', ')) FROM pg_catalog.pg_proc p
             WHERE p.pronamespace = '{schema}'::regnamespace AND p.xmin = pg_current_xact_id()::xid);
END $$;

-- What was granted on functions that 00_replaced.sql removed.
DO $$
BEGIN
    EXECUTE coalesce(nullif(current_setting('windlass.grants', true), ''), 'SELECT 1');
END $$;
