-- fence(worker): holds off a rescue of this worker until the transaction ends, and refuses when it has
-- already happened. Also holds off the truncation of segments, which is not safe beside statements
-- whose snapshot is older. Every write by a worker starts with it.
-- Returns the kinds that the worker knows, and the time that its claims must not be older than.
CREATE OR REPLACE FUNCTION {schema}.fence(p_worker integer, OUT kinds text[], OUT open_since timestamptz)
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtext({name} || '.rotate'), 0);
    PERFORM pg_advisory_xact_lock_shared(hashtext({name} || '.worker'), p_worker);
    SELECT w.kinds, w.open_since INTO kinds, open_since FROM {schema}.worker w WHERE w.id = p_worker AND w.ended_at IS NULL;
    IF NOT FOUND THEN
        RAISE 'worker % lost its lease', p_worker USING ERRCODE = 'WL001';
    END IF;
END $$;
