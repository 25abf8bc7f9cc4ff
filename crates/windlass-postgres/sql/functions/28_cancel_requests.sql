-- Requests to cancel jobs that workers hold. cancel() writes them; who holds such a job is told by its next heartbeat, and
-- at once by a notification. Whatever would bring the job back (retry, snooze, the end of its worker) cancels it.
-- A settlement that is under way while the request commits does not see it; then the job does come back, and the
-- next look at the request, here, cancels it where it is.

-- with_cancel_requests(outcomes): the last parameter of settle, with what would bring back a job that is to be cancelled
-- turned into its cancellation. The error of an attempt that failed is kept.
-- Cost: nothing but a look where nobody has asked.
CREATE OR REPLACE FUNCTION {schema}.with_cancel_requests(p_outcomes json) RETURNS json
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
    SELECT json_agg(CASE WHEN r.job_id IS NULL THEN o
                         WHEN o ->> 'disposition' = 'retry' THEN (o::jsonb || '{"disposition": "cancel"}')::json
                         ELSE (o::jsonb || '{"disposition": "cancel", "failed": false, "text": "cancelled by request"}')::json END ORDER BY n)
    FROM json_array_elements(p_outcomes) WITH ORDINALITY AS e (o, n)
    LEFT JOIN {schema}.cancel_request r
        ON r.job_id = (o ->> 'job')::bigint AND o ->> 'disposition' IN ('retry', 'snooze', 'no_handler', 'return')
$$;

-- lock_request(job, lane, seq): whether the request is still there, and nobody else has it locked, as who asks for the same again in a transaction that stays open.
CREATE OR REPLACE FUNCTION {schema}.lock_request(p_id bigint, p_lane integer, p_seq bigint) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off
AS $$
BEGIN
    PERFORM FROM {schema}.cancel_request q WHERE q.job_id = p_id AND q.lane_id = p_lane AND q.seq = p_seq FOR UPDATE SKIP LOCKED;
    RETURN FOUND;
END $$;

-- lock_lane_soon(lane): its lock until the transaction ends, if it comes within 100 ms; whether it did.
CREATE OR REPLACE FUNCTION {schema}.lock_lane_soon(p_lane integer) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms'
AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext({name} || '.lane'), p_lane);
    RETURN true;
EXCEPTION WHEN lock_not_available THEN RETURN false;
END $$;

-- cancel_soon(job, wait): carries a request out, if nobody has the job for longer than that, as who changes it in a transaction that stays open; whether it did.
CREATE OR REPLACE FUNCTION {schema}.cancel_soon(p_id bigint, p_wait text) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms'
AS $$
BEGIN
    PERFORM set_config('lock_timeout', p_wait, true);
    DELETE FROM {schema}.cancel_request q WHERE q.job_id = p_id;
    PERFORM {schema}.cancel(p_id);
    RETURN true;
EXCEPTION WHEN lock_not_available THEN RETURN false;
END $$;

-- cancel_requests(worker): the jobs that this worker holds and that are to be cancelled. Requests that came to their end are
-- removed; where a job came back meanwhile it is cancelled there, or its new worker is told. A call locks one lane at most, so that two calls cannot wait
-- for one another, and sees 1,000 such requests to their end at most; the next call goes on. Lanes that users have, in transactions that stay open, are passed over: heartbeats wait for no user.
-- Cost: three index probes for each request of the worker.
CREATE OR REPLACE FUNCTION {schema}.cancel_requests(p_worker integer) RETURNS SETOF bigint
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    r        record;
    v_lane   integer;
    v_locked boolean;
    v_wait   text := '100ms';
    v_turn   integer := (random() * 2147483647)::integer; -- another lane first each time: in one somebody may have what is asked for
    v_ended  integer := 0;
BEGIN
    FOR r IN
        SELECT q.job_id, q.lane_id, q.seq, s.completed,
               -- One without jobs is a mere cursor: all of it was settled, and the settlements may be gone.
               EXISTS (SELECT 1 FROM {schema}.claim k WHERE k.lane_id = q.lane_id AND k.seq = q.seq AND k.worker_id = p_worker
                       AND k.job_count > 0) AS held
        FROM {schema}.cancel_request q LEFT JOIN LATERAL {schema}.settlement_of(q.lane_id, q.seq, q.job_id) s ON true
        WHERE q.worker_id = p_worker AND q.job_id > 0 ORDER BY hashint4(q.lane_id # v_turn), q.lane_id, q.job_id
    LOOP
        IF r.held AND r.completed IS NULL THEN
            RETURN NEXT r.job_id;
            CONTINUE;
        END IF;
        CONTINUE WHEN v_ended >= 1000; -- of a bulk cancellation all would take longer than any call may, and the lane's claims wait
        v_ended := v_ended + 1;
        IF r.held AND r.completed THEN
            IF {schema}.lock_request(r.job_id, r.lane_id, r.seq) THEN DELETE FROM {schema}.cancel_request q WHERE q.job_id = r.job_id; END IF;
            CONTINUE;
        END IF;
        IF {schema}.lane_in_log(r.job_id) <> r.lane_id THEN -- an edit moved it: the next call locks that lane
            IF {schema}.lock_request(r.job_id, r.lane_id, r.seq) THEN
                UPDATE {schema}.cancel_request q SET lane_id = {schema}.lane_in_log(r.job_id), seq = 0 WHERE q.job_id = r.job_id;
            END IF;
            CONTINUE;
        END IF;
        -- The lane first, as cancel and retry do. A retry that came before has taken the request back.
        IF v_locked IS NOT TRUE AND r.lane_id IS DISTINCT FROM v_lane THEN
            v_locked := CASE WHEN v_lane IS NULL THEN {schema}.lock_lane_soon(r.lane_id)
                             ELSE pg_try_advisory_xact_lock(hashtext({name} || '.lane'), r.lane_id) END;
            v_lane := r.lane_id;
        END IF;
        CONTINUE WHEN r.lane_id <> v_lane OR NOT v_locked OR NOT {schema}.lock_request(r.job_id, r.lane_id, r.seq);
        IF NOT {schema}.cancel_soon(r.job_id, v_wait) THEN v_wait := '1ms'; END IF; -- in all 100 ms
    END LOOP;
END $$;

-- forget_requests(most): the same for one worker that ended. Returns `most` where it removed something, so that it is called again; else 0.
CREATE OR REPLACE FUNCTION {schema}.forget_requests(p_most integer) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
DECLARE
    v_worker integer;
    v_before bigint;
BEGIN
    -- Any of them: one whose lane somebody has holds up no other.
    SELECT q.worker_id, count(*) INTO v_worker, v_before FROM {schema}.cancel_request q
        WHERE NOT EXISTS (SELECT 1 FROM {schema}.worker w WHERE w.id = q.worker_id AND w.ended_at IS NULL) GROUP BY q.worker_id ORDER BY random() LIMIT 1;
    IF NOT FOUND THEN RETURN 0; END IF;
    PERFORM {schema}.cancel_requests(v_worker);
    IF {schema}.lock_request(-v_worker, 0, 0) THEN DELETE FROM {schema}.cancel_request q WHERE q.job_id = -v_worker; END IF; -- see drain_worker
    RETURN CASE WHEN (SELECT count(*) FROM {schema}.cancel_request q WHERE q.worker_id = v_worker) < v_before THEN p_most ELSE 0 END;
END $$;
