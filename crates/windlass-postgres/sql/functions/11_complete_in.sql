-- complete_in against any other settlement of the same job: found by the permuter (complete_in_vs_return).
-- A handler whose COMMIT is on its way (it waits for fsync or a standby) may have ended by a timeout or a cut
-- connection; its worker then settles the job as failed or handed back, and cannot see the completion yet.
-- Both committed, so a job whose effects had happened ran again.
--
-- The protocol. complete_in announces the job by a lock, then lets a settle of its worker that is under way
-- finish, then looks. settle_outcomes, alone with the worker's settlements, waits for the announced ones among
-- its jobs. Whoever comes second sees what the first has written; other jobs never wait.

-- complete_in(worker, lane, seq, token, id, xid): settles one job, whose row in the log is (lane, xid, id), in the
-- caller's own transaction: its effects and its completion commit together. Raises when the job is no longer
-- the worker's. Every lock that it takes ends with the transaction, or with the statement that an error ends.
-- Takes no lock that settlements of other jobs wait for: the caller's transaction may stay open for long. A
-- rescue of the worker waits for it, so where the session has no idle_in_transaction_session_timeout, it gets one of
-- a minute for the rest of the transaction: the server ends the transaction of a client that is gone, not after
-- hours of TCP keepalive. Truncation does not wait: what is read of the log is read in a subtransaction that rolls
-- back, which gives back the rotate lock and the locks on every segment. Left is a row in the current one. Should
-- the claim move meanwhile, see move_settlements.
-- READ COMMITTED only: an older snapshot shows a lease that was lost meanwhile.
-- Cost: a few index probes, whatever the size of the claim and however much of it is settled: 1,000 calls for the
-- jobs of one claim 0.9 s, where reading the claim and its settlements took 15 s.
CREATE OR REPLACE FUNCTION {schema}.complete_in(
    p_worker integer, p_lane integer, p_seq bigint, p_token integer, p_id bigint, p_xid xid8)
    RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    v_held    boolean;
    v_settled boolean;
BEGIN
    PERFORM {schema}.read_committed('complete_in');
    IF current_setting('idle_in_transaction_session_timeout') = '0' THEN
        PERFORM set_config('idle_in_transaction_session_timeout', '60s', true);
    END IF;
    PERFORM pg_advisory_xact_lock_shared(hashtext({name} || '.worker'), p_worker);
    PERFORM pg_advisory_xact_lock_shared(hashtext({name} || '.complete'), p_worker);
    PERFORM pg_advisory_xact_lock(hashtext({name} || '.job'), (p_id & 2147483647)::integer);
    PERFORM {schema}.await_settle(p_worker);
    BEGIN
        PERFORM {schema}.fence(p_worker);
        v_held := EXISTS (
            SELECT 1 FROM {schema}.claim c JOIN {schema}.job j ON j.lane_id = p_lane AND j.xid = p_xid AND j.id = p_id
            WHERE c.lane_id = p_lane AND c.seq = p_seq AND c.token = p_token AND c.worker_id = p_worker AND c.job_count > 0
              AND CASE WHEN c.direct THEN j.xid = ({direct} + p_seq)::text::xid8
                       ELSE pg_visible_in_snapshot(j.xid, c.to_snapshot) AND NOT pg_visible_in_snapshot(j.xid, c.from_snapshot)
                            AND (c.start_xid IS NULL OR (j.xid, j.id) > (c.start_xid, c.start_id))
                            AND (c.end_xid IS NULL OR (j.xid, j.id) <= (c.end_xid, c.end_id)) END);
        v_settled := EXISTS (SELECT 1 FROM {schema}.settlement_of(p_lane, p_seq, p_id));
        RAISE 'the log was read' USING ERRCODE = 'WL099';
    EXCEPTION WHEN SQLSTATE 'WL099' THEN
        NULL; -- what was read stays, the locks go
    END;
    IF NOT v_held THEN
        RAISE 'job % is not held by worker %', p_id, p_worker USING ERRCODE = 'WL001';
    END IF;
    IF v_settled THEN
        RAISE 'job % is settled already', p_id USING ERRCODE = 'WL001';
    END IF;
    INSERT INTO {schema}.settlement (seq, lane_id, worker_id, job_count, segment, completed, low_id, high_id)
        VALUES (p_seq, p_lane, p_worker, 1, {schema}.current_segment(), true, p_id, p_id);
END $$;

-- await_settle(worker): returns when no settle of the worker is under way. Its lock is taken in a subtransaction
-- that is rolled back, which releases it: a lock of the session and its release would be two steps, and a cancelled
-- statement between them would leave the lock in the user's connection, where every settle of the worker waits for it.
CREATE OR REPLACE FUNCTION {schema}.await_settle(p_worker integer) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtext({name} || '.settle'), p_worker);
    RAISE SQLSTATE 'WL000';
EXCEPTION WHEN SQLSTATE 'WL000' THEN
    RETURN;
END $$;
