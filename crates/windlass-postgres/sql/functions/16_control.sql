-- What a person or a program asks of single jobs and queues.

-- cancel(id): takes a waiting job out. 'cancelled', 'running' (a worker holds it, and is told to stop: see cancel_requests),
-- 'finished' or 'not_found'. Gives up (SQLSTATE 55P03) where the job moves each time it is looked for. Of a job that stands in the log unclaimed it holds the lane's lock until the transaction ends, so keep that short.
CREATE OR REPLACE FUNCTION {schema}.cancel(id bigint) RETURNS text
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off
    SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
    SET enable_hashjoin = off SET enable_mergejoin = off -- plans made anew were 0.08 ms of the 0.2 of a cancel
AS $$
#variable_conflict use_column
DECLARE
    p_id alias for $1;
    f    record;
    v_keyed boolean;
BEGIN
    PERFORM {schema}.read_committed('cancel');
    PERFORM pg_advisory_xact_lock_shared(hashtext({name} || '.rotate'), 0);
    PERFORM {schema}.check_home();
    -- The job can move between waiting and the log while we look; each place is checked under its lock.
    FOR attempt IN 1..5 LOOP
        IF EXISTS (SELECT 1 FROM {schema}.waiting h WHERE h.id = p_id) THEN
            v_keyed := {schema}.lock_keyed(p_id);
            WITH gone AS (DELETE FROM {schema}.waiting h WHERE h.id = p_id AND (h.state <> 'keyed' OR v_keyed) RETURNING h.*)
            INSERT INTO {schema}.dead (id, enqueued_at, lane_id, attempt, max_attempts, crash_count, state, reason, kind, args, attributes)
                SELECT g.id, g.enqueued_at, g.lane_id, g.attempt, g.max_attempts, g.crash_count, 'cancelled', 'cancelled by request', g.kind, g.args, g.attributes
                FROM gone g;
            IF FOUND THEN RETURN {schema}.acted('jobs.cancel', 'job ' || p_id, 'cancelled'); END IF;
        END IF;
        SELECT * INTO f FROM {schema}.find_locked(p_id);
        IF f.place IS NULL THEN RETURN 'not_found'; END IF;
        IF f.place = 'dead' OR f.settled_at IS NOT NULL THEN RETURN 'finished'; END IF;
        IF f.seq IS NOT NULL THEN
            INSERT INTO {schema}.cancel_request AS q (job_id, lane_id, seq, worker_id) VALUES (p_id, f.lane_id, f.seq, f.worker_id)
                ON CONFLICT (job_id) DO UPDATE SET lane_id = f.lane_id, seq = f.seq, worker_id = f.worker_id;
            PERFORM pg_notify({name}, '!' || f.worker_id) WHERE current_setting('windlass.wakeup', true) IS DISTINCT FROM 'off';
            RETURN {schema}.acted('jobs.cancel', 'job ' || p_id, 'running');
        END IF;
        CONTINUE WHEN f.place IN ('waiting', 'moved');
        INSERT INTO {schema}.cancelled_in_log (job_id, lane_id, xid) VALUES (p_id, f.lane_id, f.xid);
        INSERT INTO {schema}.dead (id, enqueued_at, lane_id, attempt, max_attempts, crash_count, state, reason, kind, args, attributes)
            SELECT j.id, j.enqueued_at, j.lane_id, j.attempt, j.max_attempts, j.crash_count, 'cancelled', 'cancelled by request', j.kind, j.args, j.attributes
            FROM {schema}.job j WHERE j.lane_id = f.lane_id AND j.xid = f.xid AND j.id = p_id;
        RETURN {schema}.acted('jobs.cancel', 'job ' || p_id, 'cancelled');
    END LOOP;
    RAISE 'job % went from one place to another as often as it was looked for; nothing was done to it, try again', p_id USING ERRCODE = '55P03';
END $$;

-- retry(id): makes a dead, cancelled or retryable job available now. 'retried', 'pending' (it waits for
-- its time, is available or running: left alone), 'completed', 'key_taken' (it is unique, another job has its key) or 'not_found'. A dead job gets its attempts anew.
CREATE OR REPLACE FUNCTION {schema}.retry(id bigint) RETURNS text
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off
    SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
    SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    p_id alias for $1;
    f    record;
    d    record;
    v_stands boolean; -- its row in the log is as it is to be
BEGIN
    PERFORM {schema}.read_committed('retry');
    PERFORM pg_advisory_xact_lock_shared(hashtext({name} || '.rotate'), 0);
    PERFORM {schema}.check_home();
    WITH gone AS (DELETE FROM {schema}.waiting h WHERE h.id = p_id AND h.state || '' = 'retryable' RETURNING h.*
    ), back AS (
        INSERT INTO {schema}.job (id, enqueued_at, lane_id, segment, attempt, max_attempts, crash_count, moved, kind, args, attributes)
        SELECT g.id, g.enqueued_at, g.lane_id, {schema}.current_segment(), g.attempt, g.max_attempts, g.crash_count, true, g.kind, g.args, g.attributes FROM gone g)
    INSERT INTO {schema}.event (job_id, lane_id, attempt, segment, event, kind)
        SELECT g.id, g.lane_id, g.attempt, {schema}.current_segment(), 'retried', g.kind FROM gone g;
    IF FOUND THEN
        PERFORM {schema}.note_came_back(clock_timestamp());
        DELETE FROM {schema}.cancel_request q WHERE q.job_id = p_id; -- asked for while its attempt ended
        RETURN {schema}.acted('jobs.retry', 'job ' || p_id, 'retried');
    END IF;
    SELECT * INTO d FROM {schema}.dead x WHERE x.id = p_id;
    IF FOUND THEN
        IF d.attributes <> '' AND NOT {schema}.take_unique_again(d.attributes, p_id) THEN RETURN 'key_taken'; END IF;
        SELECT * INTO d FROM {schema}.dead x WHERE x.id = p_id FOR UPDATE;
        IF NOT FOUND THEN -- retried or deleted meanwhile
            RETURN CASE WHEN (SELECT f.place FROM {schema}.find_job(p_id) f) IS NULL THEN 'not_found' ELSE 'pending' END;
        END IF;
        -- It may have been cancelled where it stands in the log, to be stepped over: settle that with its lane locked. Nothing makes such an entry for a dead job. What that row says is used up
        -- stays so: then it is written anew, in another lane, as an edited one.
        v_stands := d.attempt = 0 AND d.crash_count = 0
            AND EXISTS (SELECT 1 FROM {schema}.cancelled_in_log s WHERE s.job_id = p_id AND s.lane_id + 0 = d.lane_id);
        IF v_stands THEN
            PERFORM pg_advisory_xact_lock(hashtext({name} || '.lane'), d.lane_id);
        END IF;
        DELETE FROM {schema}.dead x WHERE x.id = p_id;
        IF d.attributes <> '' THEN PERFORM {schema}.tell_key(p_id, d.lane_id, d.attributes, true); END IF; -- it is as one that was never handed out
        PERFORM {schema}.note_event('retried', p_id, d.lane_id, 0::smallint, d.kind, NULL);
        DELETE FROM {schema}.cancel_request q WHERE q.job_id = p_id;
        IF v_stands THEN
            DELETE FROM {schema}.cancelled_in_log s WHERE s.job_id = p_id AND s.lane_id + 0 = d.lane_id;
            IF FOUND THEN -- its log row was never claimed: it is simply no longer stepped over
                PERFORM pg_notify({name}, '') WHERE current_setting('windlass.wakeup', true) IS DISTINCT FROM 'off';
                RETURN {schema}.acted('jobs.retry', 'job ' || p_id, 'retried');
            END IF;
        END IF;
        INSERT INTO {schema}.job (id, enqueued_at, lane_id, segment, max_attempts, moved, kind, args, attributes)
            VALUES (d.id, d.enqueued_at, {schema}.lane_for(p_id, d.lane_id, NULL, NULL), {schema}.current_segment(), d.max_attempts, true, d.kind, d.args, d.attributes);
        PERFORM {schema}.note_came_back(clock_timestamp());
        RETURN {schema}.acted('jobs.retry', 'job ' || p_id, 'retried');
    END IF;
    SELECT * INTO f FROM {schema}.find_job(p_id);
    RETURN CASE WHEN f.place IS NULL THEN 'not_found' WHEN f.settled_at IS NOT NULL THEN 'completed' ELSE 'pending' END;
END $$;

-- pause(queue), resume(queue): whether the queue exists. Where it has limits, workers ask for their shares at once: those of a paused queue let nothing start (see share).
CREATE OR REPLACE FUNCTION {schema}.pause(queue text) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO {schema}.queue (name) SELECT l.queue FROM {schema}.lane l WHERE l.queue = $1 LIMIT 1 ON CONFLICT DO NOTHING;
    UPDATE {schema}.queue q SET paused_at = coalesce(q.paused_at, clock_timestamp()) WHERE q.name = $1;
    IF NOT FOUND THEN RETURN false; END IF;
    PERFORM {schema}.request(NULL) FROM {schema}.queue q WHERE q.name = $1 AND (q.concurrency IS NOT NULL OR q.rate IS NOT NULL);
    PERFORM {schema}.acted('queues.pause', $1);
    RETURN true;
END $$;

CREATE OR REPLACE FUNCTION {schema}.resume(queue text) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    UPDATE {schema}.queue q SET paused_at = NULL WHERE q.name = $1;
    IF FOUND THEN
        PERFORM pg_notify({name}, '') WHERE current_setting('windlass.wakeup', true) IS DISTINCT FROM 'off';
        PERFORM {schema}.request(NULL) FROM {schema}.queue q WHERE q.name = $1 AND (q.concurrency IS NOT NULL OR q.rate IS NOT NULL);
        PERFORM {schema}.acted('queues.resume', $1);
        RETURN true;
    END IF;
    RETURN EXISTS (SELECT 1 FROM {schema}.lane l WHERE l.queue = $1);
END $$;
