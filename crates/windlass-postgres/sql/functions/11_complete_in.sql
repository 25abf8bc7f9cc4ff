-- complete_in against any other settlement of the same job: found by the permuter (complete_in_vs_return).
-- A handler whose COMMIT is on its way (it waits for fsync or a standby) may have ended by a timeout or a cut
-- connection; its worker then settles the job as failed or handed back, and cannot see the completion yet.
-- Both committed, so a job whose effects had happened ran again.
--
-- The protocol. complete_in announces the job by a lock, then lets a settle of its worker that is under way
-- finish, then looks. settle_other, alone with the worker's settlements, waits for the announced ones among
-- its jobs. Whoever comes second sees what the first has written; other jobs never wait.

-- complete_in(worker, lane, seq, token, id): settles one job in the caller's own transaction: its
-- effects and its completion commit together. Raises when the job is no longer the worker's.
-- Takes no lock that settlements of other jobs wait for: the caller's transaction may stay open for long. A
-- rescue of the worker waits for it. Truncation does not: what is read of the log is read in a subtransaction that
-- rolls back, which gives back the rotate lock and the locks on every segment. Left is a row in the current
-- one. Should the claim move meanwhile, see move_settlements.
-- READ COMMITTED only: an older snapshot shows a lease that was lost meanwhile.
CREATE OR REPLACE FUNCTION {schema}.complete_in(p_worker integer, p_lane integer, p_seq bigint, p_token integer, p_id bigint)
    RETURNS void LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_held    boolean;
    v_settled boolean;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE 'complete_in needs READ COMMITTED, got %', current_setting('transaction_isolation') USING ERRCODE = 'WL006';
    END IF;
    PERFORM pg_advisory_xact_lock_shared(hashtext({name} || '.worker'), p_worker);
    PERFORM pg_advisory_xact_lock_shared(hashtext({name} || '.complete'), p_worker);
    PERFORM pg_advisory_xact_lock(hashtext({name} || '.job'), (p_id & 2147483647)::integer);
    PERFORM pg_advisory_lock_shared(hashtext({name} || '.settle'), p_worker);
    PERFORM pg_advisory_unlock_shared(hashtext({name} || '.settle'), p_worker);
    BEGIN
        PERFORM {schema}.fence(p_worker);
        v_held := EXISTS (SELECT 1 FROM {schema}.claim c CROSS JOIN LATERAL {schema}.claim_jobs(p_lane, p_seq) j
            WHERE c.lane_id = p_lane AND c.seq = p_seq AND c.token = p_token AND c.worker_id = p_worker AND j.id = p_id);
        v_settled := EXISTS (SELECT 1 FROM {schema}.settlement s
            WHERE s.lane_id = p_lane AND s.seq = p_seq AND (s.ranges IS NULL OR {schema}.in_ranges(p_id, s.ranges)));
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
    INSERT INTO {schema}.settlement (seq, lane_id, worker_id, job_count, segment, completed, ranges)
        VALUES (p_seq, p_lane, p_worker, 1, {schema}.current_segment(), true, ARRAY[p_id, p_id]);
END $$;
