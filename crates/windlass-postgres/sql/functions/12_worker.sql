-- Workers: registration, heartbeat, leadership. All decisions by the database clock.

-- make_queues(queues): those that are not there. What somebody else makes in a transaction that stays open, as who limits or pauses a queue that is new, is left to
-- that one: in all it waits for 100 ms, so that no worker's start waits for a user.
CREATE OR REPLACE FUNCTION {schema}.make_queues(p_queues text[]) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms'
AS $$
DECLARE
    v_queue text;
BEGIN
    FOR v_queue IN SELECT DISTINCT q FROM unnest(p_queues) AS q WHERE q NOT IN (SELECT name FROM {schema}.queue) ORDER BY q LOOP
        BEGIN
            INSERT INTO {schema}.queue (name) VALUES (v_queue) ON CONFLICT DO NOTHING;
        EXCEPTION WHEN lock_not_available THEN
            PERFORM set_config('lock_timeout', '1ms', true);
        END;
    END LOOP;
END $$;

-- present_line(): the server's timeline as a number; NULL where it does not say, as some services do not.
CREATE OR REPLACE FUNCTION {schema}.present_line() RETURNS bigint
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN ('x' || {schema}.event_timeline())::bit(32)::bigint;
EXCEPTION WHEN insufficient_privilege OR undefined_function OR feature_not_supported THEN
    RETURN NULL;
END $$;

-- first_worker(): beyond it are the ids of workers of the server's present timeline. An asynchronous failover, or a recovery to a point in time, goes back to an earlier number, while processes run on
-- that have later ones; and an id is never given again, because it is the worker's fencing token. So each timeline has ten million of its own, counted from those of the timeline before that table
-- timeline knows: two recoveries of one backup are two timelines. Where the server began to count anew (pg_upgrade, another cluster), it is the next ten million that nobody used, a million apart, for
-- what was lost. Where these are used up it is ten thousand further on.
CREATE OR REPLACE FUNCTION {schema}.first_worker() RETURNS integer
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_line bigint := {schema}.present_line();
    t      {schema}.timeline;
    v_last bigint;
    v_next bigint;
BEGIN
    IF v_line IS NULL THEN RETURN 0; END IF;
    SELECT * INTO t FROM {schema}.timeline;
    IF NOT FOUND THEN RETURN CASE WHEN v_line <= 200 THEN (v_line - 1) * 10000000 ELSE 0 END; END IF;
    IF t.line = v_line THEN RETURN t.first_worker; END IF;
    v_last := coalesce(pg_sequence_last_value(pg_get_serial_sequence('{schema}.worker', 'id')), 0);
    v_next := (v_last + 10999999) / 10000000 * 10000000;
    IF v_line > t.line THEN v_next := greatest(v_next, t.first_worker + (v_line - t.line) * 10000000); END IF;
    RETURN CASE WHEN v_next <= 2000000000 THEN v_next ELSE least(v_last + 10000, 2147483647) END;
END $$;

-- begin_timeline(): notes the server's timeline where it is another than the last one: ids of workers go on after first_worker. Those who register side by side do it one after the other. The ids of jobs go on
-- a hundred million later: those of jobs that the failover lost were told to somebody, who would look at another job, or cancel it. Who enqueues before the first worker registers still gets them.
CREATE OR REPLACE FUNCTION {schema}.begin_timeline() RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_line  bigint := {schema}.present_line();
    v_ids   regclass := pg_get_serial_sequence('{schema}.worker', 'id');
    v_first integer;
BEGIN
    IF v_line IS NULL OR EXISTS (SELECT 1 FROM {schema}.timeline t WHERE t.line = v_line) THEN RETURN; END IF;
    PERFORM pg_advisory_xact_lock(hashtext({name} || '.timeline'), 0);
    IF EXISTS (SELECT 1 FROM {schema}.timeline t WHERE t.line = v_line) THEN RETURN; END IF;
    v_first := {schema}.first_worker();
    IF v_first > coalesce(pg_sequence_last_value(v_ids), 0) THEN
        PERFORM setval(v_ids, v_first), setval('{schema}.job_id_seq', pg_sequence_last_value('{schema}.job_id_seq') + 100000000);
    END IF;
    INSERT INTO {schema}.timeline AS t (line, first_worker) VALUES (v_line, v_first)
        ON CONFLICT (one) DO UPDATE SET line = excluded.line, first_worker = excluded.first_worker;
END $$;

-- Of workers that registered before there was such a row.
INSERT INTO {schema}.timeline (line, first_worker)
    SELECT n.line, n.first_worker FROM (SELECT {schema}.present_line() AS line, {schema}.first_worker() AS first_worker WHERE EXISTS (SELECT 1 FROM {schema}.worker)) AS n
    WHERE n.line IS NOT NULL ON CONFLICT DO NOTHING;

-- register(name, queues, kinds, lease seconds, program, app_version, engine): a new worker; its queues are made when they do not exist. The last three are for people.
CREATE OR REPLACE FUNCTION {schema}.register(p_name text, p_queues text[], p_kinds text[], p_lease double precision, p_program text DEFAULT NULL,
                                             p_app_version text DEFAULT NULL, p_engine text DEFAULT NULL)
    RETURNS integer LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_worker integer;
BEGIN
    PERFORM {schema}.make_queues(p_queues), {schema}.begin_timeline();
    INSERT INTO {schema}.worker (name, queues, kinds, lease, program, app_version, engine)
        VALUES (p_name, p_queues, p_kinds, make_interval(secs => p_lease), p_program, p_app_version, p_engine) RETURNING id INTO v_worker;
    RETURN v_worker;
END $$;

-- suspect(worker, job): the worker runs this job alone from now on (NULL: it is over).
CREATE OR REPLACE FUNCTION {schema}.suspect(p_worker integer, p_job bigint) RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM {schema}.fence(p_worker);
    UPDATE {schema}.worker SET suspect_id = p_job WHERE id = p_worker;
END $$;

-- heartbeat(worker, open_from, open_lanes, open_seqs, memory_bytes, jobs_per_second): renews the lease; refused once it was taken away. The last two are for people; the rest says which
-- claims rescue has to look at: those from call open_from on, and these older ones (NULL: as before). The worker
-- must know that all its other claims are settled. Refused as by fence where the log came here from another cluster: the worker
-- may know of settlements that the dump does not, and rehome has to look at these claims. So may one that registered before a failover: what it says of its claims is not
-- believed any more, and rescue looks at all that it made since the last heartbeat of before.
CREATE OR REPLACE FUNCTION {schema}.heartbeat(p_worker integer, p_open_from bigint, p_open_lanes integer[], p_open_seqs bigint[],
                                              p_memory_bytes bigint DEFAULT NULL, p_jobs_per_second double precision DEFAULT NULL)
    RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_tells boolean := p_open_from IS NOT NULL AND p_worker > {schema}.first_worker();
BEGIN
    -- One that a later heartbeat has overtaken only makes rescue look at more: what is open now was open then.
    UPDATE {schema}.worker SET heartbeat_at = clock_timestamp(), beat = beat + 1,
            in_touch_since = CASE WHEN clock_timestamp() BETWEEN heartbeat_at AND heartbeat_at + lease / 2 THEN in_touch_since
                                  ELSE clock_timestamp() END,
            memory_bytes = p_memory_bytes, jobs_per_second = p_jobs_per_second,
            open_from = CASE WHEN v_tells THEN p_open_from ELSE open_from END,
            open_lanes = CASE WHEN v_tells THEN p_open_lanes ELSE open_lanes END,
            open_seqs = CASE WHEN v_tells THEN p_open_seqs ELSE open_seqs END
        WHERE id = p_worker AND ended_at IS NULL AND {schema}.home_state() IN ('home', 'upgraded');
    IF NOT FOUND THEN
        RAISE 'worker % lost its lease', p_worker USING ERRCODE = 'WL001';
    END IF;
END $$;

-- is_outdated(worker): whether the server began another timeline since it registered. Settlements that it was told are accepted may be lost, and their jobs count as held by it until it ends.
CREATE OR REPLACE FUNCTION {schema}.is_outdated(p_worker integer) RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$ SELECT p_worker <= {schema}.first_worker() $$;

-- drain_worker(worker): asks a worker to take no more jobs, end what it runs, and go. Its next heartbeat tells it; a notification that there is something to tell.
-- Whether there is such a worker, and it has queues. Repeating it changes nothing.
-- It is a request that names no job but, in its place, the worker's negative id. In the worker's own row it would keep that row until the transaction ends, and neither
-- the worker's heartbeat nor anybody's rescue may wait for a user.
CREATE OR REPLACE FUNCTION {schema}.drain_worker(worker integer) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM {schema}.worker w WHERE w.id = $1 AND w.ended_at IS NULL AND w.queues <> '{}') THEN RETURN false; END IF;
    INSERT INTO {schema}.cancel_request (job_id, lane_id, seq, worker_id) VALUES (-$1, 0, 0, $1) ON CONFLICT DO NOTHING;
    PERFORM pg_notify({name}, '!' || $1) WHERE current_setting('windlass.wakeup', true) IS DISTINCT FROM 'off';
    PERFORM {schema}.acted('workers.drain', $1::text);
    RETURN true;
END $$;

-- is_draining(worker): whether somebody asked for that.
CREATE OR REPLACE FUNCTION {schema}.is_draining(p_worker integer) RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT EXISTS (SELECT 1 FROM {schema}.cancel_request q WHERE q.job_id = -p_worker)
        OR EXISTS (SELECT 1 FROM {schema}.worker w WHERE w.id = p_worker AND w.draining_at IS NOT NULL) -- asked before requests said it
$$;

-- lead(worker, term): takes or renews leadership by a lease. Whether this worker leads now; one that was ended does not.
CREATE OR REPLACE FUNCTION {schema}.lead(p_worker integer, p_term interval) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
BEGIN
    INSERT INTO {schema}.leader AS l (worker_id, expires_at)
        SELECT w.id, v_now + p_term FROM {schema}.worker w WHERE w.id = p_worker AND w.ended_at IS NULL
        ON CONFLICT (one) DO UPDATE SET worker_id = p_worker, expires_at = v_now + p_term
        WHERE l.worker_id = p_worker OR l.expires_at < v_now;
    RETURN FOUND;
END $$;
