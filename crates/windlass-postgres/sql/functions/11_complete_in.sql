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
-- rescue of the worker and the truncation of segments wait for it (the latter 50 ms at a time).
-- READ COMMITTED only: an older snapshot shows a lease that was lost meanwhile.
CREATE OR REPLACE FUNCTION {schema}.complete_in(p_worker integer, p_lane integer, p_seq bigint, p_token integer, p_id bigint)
    RETURNS void LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_claimed integer;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE 'complete_in needs READ COMMITTED, got %', current_setting('transaction_isolation') USING ERRCODE = 'WL006';
    END IF;
    PERFORM {schema}.fence(p_worker);
    PERFORM pg_advisory_xact_lock_shared(hashtext({name} || '.complete'), p_worker);
    PERFORM pg_advisory_xact_lock(hashtext({name} || '.job'), (p_id & 2147483647)::integer);
    PERFORM pg_advisory_lock_shared(hashtext({name} || '.settle'), p_worker);
    PERFORM pg_advisory_unlock_shared(hashtext({name} || '.settle'), p_worker);
    SELECT job_count INTO v_claimed FROM {schema}.claim
        WHERE lane_id = p_lane AND seq = p_seq AND token = p_token AND worker_id = p_worker;
    IF NOT FOUND OR NOT EXISTS (SELECT 1 FROM {schema}.claim_jobs(p_lane, p_seq) j WHERE j.id = p_id) THEN
        RAISE 'job % is not held by worker %', p_id, p_worker USING ERRCODE = 'WL001';
    END IF;
    IF {schema}.settle_part(p_worker, p_lane, p_seq, v_claimed, 1, ARRAY[p_id, p_id], {schema}.current_segment()) = 1 THEN
        RAISE 'job % is settled already', p_id USING ERRCODE = 'WL001';
    END IF;
END $$;
