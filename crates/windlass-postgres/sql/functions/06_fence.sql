-- fence(worker): holds off a rescue of this worker until the transaction ends, and refuses when it has
-- already happened. Also holds off the truncation of segments, which is not safe beside statements
-- whose snapshot is older. Every write by a worker starts with it.
-- Also refuses everybody in a database that was moved to another cluster, until a registration has put the log in order. Where that was a restore in one transaction, which may have
-- the id that table home notes (see home_state), worker and home have one writer. Where home was restored by itself under that id, it is the worker's next heartbeat that is refused.
-- Returns the kinds that the worker knows.
-- Cost: one version of the worker's row, by index worker_live: its newest comes first. No other plan goes without a sort.
CREATE OR REPLACE FUNCTION {schema}.fence(p_worker integer) RETURNS text[]
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_sort = off
AS $$
DECLARE
    v_kinds text[];
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtext({name} || '.rotate'), 0),
            pg_advisory_xact_lock_shared(hashtext({name} || '.worker'), p_worker);
    SELECT w.kinds INTO v_kinds FROM {schema}.worker w
        WHERE w.id = p_worker AND w.ended_at IS NULL AND (SELECT h.xmin = h.xid::xid AND h.xmin <> w.xmin FROM {schema}.home h) ORDER BY w.beat DESC LIMIT 1;
    IF NOT FOUND THEN
        RAISE 'worker % lost its lease', p_worker USING ERRCODE = 'WL001';
    END IF;
    RETURN v_kinds;
END $$;

-- read_committed(what): refuses another isolation level. Functions that read a lane's rows behind its lock need it:
-- each statement then gets a snapshot taken after the lock.
CREATE OR REPLACE FUNCTION {schema}.read_committed(p_what text)
    RETURNS void LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE '% needs READ COMMITTED, got %; say BEGIN ISOLATION LEVEL READ COMMITTED, or change default_transaction_isolation', p_what,
            current_setting('transaction_isolation') USING ERRCODE = 'WL006';
    END IF;
END $$;
