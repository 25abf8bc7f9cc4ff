-- The end of workers: what they held is available again.

-- overdue_workers(rescuer): whose lease is over, the longest first, as far as the rescuer may say so. While the server cannot be
-- reached (a cut network, a restart, a failover to whichever standby) the leases of the living end too. So the rescuer
-- must have been in touch for as long as the lease of the other: then the other, if it lives, has renewed it. A call
-- that was sent before the outage and arrives after it finds the rescuer's own heartbeat too old.
CREATE OR REPLACE FUNCTION {schema}.overdue_workers(p_rescuer integer) RETURNS SETOF integer
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
    SELECT w.id FROM {schema}.worker r JOIN {schema}.worker w ON w.ended_at IS NULL AND w.heartbeat_at + w.lease < clock_timestamp()
    WHERE r.id = p_rescuer AND r.ended_at IS NULL AND r.heartbeat_at + r.lease / 2 >= clock_timestamp()
      AND r.in_touch_since + w.lease <= clock_timestamp()
    ORDER BY w.heartbeat_at, w.id
$$;

-- rescue(rescuer): ends one worker whose lease is over and takes back what it holds. worker: NULL when there was none,
-- when somebody else is at it, or when all of them are busy writing. Also how long until the next lease can end, in ms; NULL: no worker is live.
-- One rescues at a time, so that many callers do the work of one.
-- Cost: one look at the live workers.
CREATE OR REPLACE FUNCTION {schema}.rescue(
    p_rescuer integer, OUT worker integer, OUT rescued bigint, OUT discarded bigint, OUT next_end_ms double precision)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_overdue integer;
    v_last    timestamptz; -- the latest heartbeat
    v_end     timestamptz; -- of the first lease
BEGIN
    SELECT max(w.heartbeat_at), min(w.heartbeat_at + w.lease) INTO v_last, v_end FROM {schema}.worker w WHERE w.ended_at IS NULL;
    -- A heartbeat from the future is one from before the clock was set back: its lease begins anew.
    IF v_last > clock_timestamp() + interval '1 second' THEN
        UPDATE {schema}.worker w SET heartbeat_at = clock_timestamp(), in_touch_since = least(w.in_touch_since, clock_timestamp())
            WHERE w.ended_at IS NULL AND w.heartbeat_at > clock_timestamp() + interval '1 second';
        v_end := '-infinity';
    END IF;
    IF v_end < clock_timestamp() AND EXISTS (SELECT 1 FROM {schema}.overdue_workers(p_rescuer))
       AND pg_try_advisory_xact_lock(hashtext({name} || '.rescue'), 0) THEN
        FOR v_overdue IN SELECT o FROM {schema}.overdue_workers(p_rescuer) AS o LOOP
            SELECT e.rescued, e.discarded INTO rescued, discarded FROM {schema}.end_worker(v_overdue, true) e;
            IF rescued IS NOT NULL THEN
                worker := v_overdue;
                EXIT;
            END IF;
        END LOOP;
    END IF;
    IF v_end < clock_timestamp() THEN
        SELECT min(w.heartbeat_at + w.lease) INTO v_end FROM {schema}.worker w WHERE w.ended_at IS NULL;
    END IF;
    next_end_ms := greatest(extract(epoch FROM v_end - clock_timestamp()) * 1000, 0);
END $$;

-- end_worker(worker, crashed): takes back every job that the worker holds.
-- crashed = false, a clean end: the jobs are available again, nothing is counted.
-- crashed = true, its lease is over: the crash count goes up, of the suspect alone when one was
-- announced, else of every held job but never above 2, so that no job dies because of its neighbours;
-- a suspect that reaches the setting max_crashes is discarded as crash_loop.
-- Jobs that somebody wants cancelled are cancelled. Its shares of limited queues end, and it leads no longer.
-- Invariant: under the worker's exclusive lock, so no write of the worker is under way or comes later.
-- Returns NULLs when there was nothing to end: it is live, ended before, or busy writing just now. Or the log came here from another
-- cluster: rehome ends all workers, and the claims of before reach over rows that were written here since.
CREATE OR REPLACE FUNCTION {schema}.end_worker(
    p_worker integer, p_crashed boolean, OUT rescued bigint, OUT discarded bigint)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
AS $$
DECLARE
    c         record;
    v_suspect bigint;
    v_segment smallint;
    v_most    integer := (SELECT max_crashes FROM {schema}.setting);
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtext({name} || '.rotate'), 0);
    IF p_crashed AND NOT pg_try_advisory_xact_lock(hashtext({name} || '.worker'), p_worker) THEN RETURN; END IF;
    IF NOT p_crashed THEN PERFORM pg_advisory_xact_lock(hashtext({name} || '.worker'), p_worker); END IF;
    IF {schema}.home_state() = 'moved' THEN RETURN; END IF;
    -- A statement of its own, so that it sees what was committed before the lock came.
    UPDATE {schema}.worker SET ended_at = clock_timestamp()
        WHERE id = p_worker AND ended_at IS NULL
          AND (NOT p_crashed OR heartbeat_at + lease < clock_timestamp())
        RETURNING suspect_id INTO v_suspect;
    IF NOT FOUND THEN RETURN; END IF;
    PERFORM {schema}.end_shares(p_worker);
    DELETE FROM {schema}.leader WHERE worker_id = p_worker;
    rescued := 0;
    discarded := 0;
    v_segment := {schema}.current_segment();
    -- An idle worker's end should not pay for planning the rest.
    IF NOT EXISTS (SELECT 1 FROM {schema}.worker w WHERE w.id = p_worker AND (
                       cardinality(w.open_seqs) > 0 OR EXISTS (
                       SELECT 1 FROM {schema}.claim k
                       WHERE k.worker_id = p_worker AND k.worker_call >= w.open_from AND k.job_count > 0))) THEN
        RETURN;
    END IF;
    FOR c IN SELECT * FROM {schema}.open_claims(p_worker) LOOP
        WITH left_over AS MATERIALIZED (
            SELECT j.*, least(j.crash_count + 1, greatest(j.crash_count, 2)) AS together
            FROM {schema}.unsettled_jobs(c.lane_id, c.seq) j
        ), counted AS MATERIALIZED (
            SELECT l.*, CASE WHEN NOT p_crashed THEN l.crash_count
                             WHEN v_suspect IS NULL THEN l.together
                             WHEN v_suspect = l.id THEN l.crash_count + 1
                             ELSE l.crash_count END AS crashes,
                   EXISTS (SELECT 1 FROM {schema}.cancel_request q WHERE q.job_id = l.id) AS unwanted
            FROM left_over l
        ), back AS (
            INSERT INTO {schema}.job (id, enqueued_at, lane_id, segment, attempt, max_attempts, crash_count, moved, kind, args, attributes)
            SELECT id, enqueued_at, lane_id, v_segment, attempt, max_attempts, crashes, true, kind, args, attributes FROM counted
            WHERE NOT unwanted AND (crashes < v_most OR crashes = crash_count)
            ORDER BY xid, id
            RETURNING 1
        ), looped AS (
            INSERT INTO {schema}.dead (id, enqueued_at, lane_id, attempt, max_attempts, crash_count, state, reason, kind, args, attributes)
            SELECT id, enqueued_at, lane_id, attempt + 1, max_attempts, crashes, 'discarded',
                   'crash_loop: ' || crashes || ' workers died while they held this job', kind, args, attributes
            FROM counted WHERE NOT unwanted AND NOT (crashes < v_most OR crashes = crash_count)
            RETURNING 1
        ), cancelled AS (
            INSERT INTO {schema}.dead (id, enqueued_at, lane_id, attempt, max_attempts, crash_count, state, reason, kind, args, attributes)
            SELECT id, enqueued_at, lane_id, attempt + 1, max_attempts, crashes, 'cancelled', 'cancelled by request', kind, args, attributes
            FROM counted WHERE unwanted
        ), told AS (
            INSERT INTO {schema}.event (job_id, lane_id, worker_id, attempt, segment, event, kind)
            SELECT id, lane_id, p_worker, attempt + 1, v_segment, CASE WHEN p_crashed THEN 'rescued' ELSE 'returned' END, kind FROM counted
            WHERE NOT unwanted AND (crashes < v_most OR crashes = crash_count) ORDER BY xid, id
        ), closed AS (
            INSERT INTO {schema}.settlement (seq, lane_id, worker_id, job_count, segment, completed)
            SELECT c.seq, c.lane_id, p_worker, count(*), v_segment, false FROM counted HAVING count(*) > 0
        )
        SELECT rescued + (SELECT count(*) FROM back), discarded + (SELECT count(*) FROM looped)
            INTO rescued, discarded;
    END LOOP;
    IF rescued > 0 THEN PERFORM {schema}.note_came_back(clock_timestamp()); END IF;
END $$;
