-- Emptying a segment, second part: proof that nothing there is needed, and TRUNCATE.

-- ranges_ahead(claim): where the jobs stand that a cursor has not handed out, as claims read them: rows with
-- (xid, id) > (lo, lo_id) and xid <= hi. Unlike consumed(), it passes over what was handed out.
CREATE OR REPLACE FUNCTION {schema}.ranges_ahead(p_from pg_snapshot, p_to pg_snapshot, p_xid xid8, p_id bigint)
    RETURNS TABLE (lo xid8, lo_id bigint, hi xid8) LANGUAGE sql STABLE ROWS 2 SET search_path = pg_catalog, pg_temp
AS $$
    SELECT u.lo, u.lo_id, u.hi FROM {schema}.delta(p_from, p_to) d, {schema}.after(d.lo, d.hi, p_xid, p_id) a,
        unnest(a.lo, a.lo_id, a.hi) AS u(lo, lo_id, hi) WHERE p_xid IS NOT NULL
    UNION ALL
    SELECT u.lo, 0, u.hi FROM {schema}.delta(p_to, pg_current_snapshot()) d, unnest(d.lo, d.hi) AS u(lo, hi)
$$;

-- still_needed(segment): what must move before the segment may go; NULL: nothing.
-- Invariant: once NULL, it stays so as long as nobody writes into the segment: what is claimed stays claimed, what is
-- settled stays settled, an older claim never becomes the newest again. Jobs are looked at first: a claim of a job
-- that was unclaimed then is no reason to look again.
CREATE OR REPLACE FUNCTION {schema}.still_needed(p_segment smallint) RETURNS text
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET enable_material = off
AS $$
DECLARE
    c       record;
    v_count bigint;
    v_here  bigint;
BEGIN
    IF EXISTS (SELECT 1 FROM {schema}.segment_lanes(p_segment) s
               WHERE NOT EXISTS (SELECT 1 FROM {schema}.lane l WHERE l.id = s)) THEN
        RETURN 'jobs of a lane that is not there';
    END IF;
    IF EXISTS (SELECT 1 FROM {schema}.cursor k
               CROSS JOIN LATERAL {schema}.ranges_ahead(k.from_snapshot, k.to_snapshot, k.end_xid, k.end_id) r
               CROSS JOIN LATERAL (
                   SELECT 1 FROM {schema}.job j WHERE j.segment = p_segment AND j.lane_id = k.lane_id
                     AND (j.xid, j.id) > (r.lo, r.lo_id) AND j.xid <= r.hi ORDER BY j.xid, j.id LIMIT 1) AS j) THEN
        RETURN 'jobs that nobody has claimed';
    END IF;
    FOR c IN SELECT o.lane_id, o.seq FROM {schema}.open_claims(NULL) o LOOP
        SELECT count(*), count(*) FILTER (WHERE j.segment = p_segment) INTO v_count, v_here
            FROM {schema}.unsettled_jobs(c.lane_id, c.seq) j;
        IF v_here > 0 OR v_count > 0 AND EXISTS (
               SELECT 1 FROM {schema}.claim k WHERE k.lane_id = c.lane_id AND k.seq = c.seq AND k.segment = p_segment) THEN
            RETURN 'claims that are not settled';
        END IF;
    END LOOP;
    IF EXISTS (SELECT 1 FROM {schema}.moved_claim m JOIN {schema}.settlement s ON s.lane_id = m.lane_id AND s.seq = m.seq
               WHERE s.segment = p_segment AND NOT EXISTS (
                   SELECT 1 FROM {schema}.claim k WHERE k.segment = p_segment AND k.lane_id = m.lane_id AND k.seq = m.seq)) THEN
        RETURN 'settlements of claims that have moved';
    END IF;
    IF EXISTS (SELECT 1 FROM {schema}.lane l CROSS JOIN LATERAL (
                   SELECT x.segment FROM {schema}.claim x WHERE x.lane_id = l.id ORDER BY x.seq DESC LIMIT 1) AS k
               WHERE k.segment = p_segment) THEN
        RETURN 'cursors of lanes';
    END IF;
    RETURN NULL;
END $$;

-- rotate_is_kept(): whether a transaction has the rotate lock that most likely stays open: one that was prepared more than a second ago, or began more than 30 seconds ago. Those of people take seconds, and where
-- some of them overlap all the time, only a longer wait gets between them. Of other roles' sessions a role may not be told; prepared ones it is. Cost: all locks that there are; it is asked once in a round in which the lock was not to be had.
CREATE OR REPLACE FUNCTION {schema}.rotate_is_kept() RETURNS boolean
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN EXISTS (
        SELECT 1 FROM pg_locks k
        LEFT JOIN pg_stat_activity a ON a.pid = k.pid
        LEFT JOIN pg_locks x ON k.pid IS NULL AND x.pid IS NULL AND x.locktype = 'transactionid' AND x.virtualtransaction = k.virtualtransaction
        LEFT JOIN pg_prepared_xacts p ON p.transaction = x.transactionid
        WHERE k.locktype = 'advisory' AND k.granted AND k.objsubid = 2 AND k.objid = 0 AND k.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
          AND k.classid::bigint = hashtext({name} || '.rotate')::bigint & 4294967295
          AND clock_timestamp() > coalesce(p.prepared + interval '1 second', a.xact_start + interval '30 seconds'));
END $$;

-- truncate_segment(segment): 'emptied'; 'needed', when something must move first; or 'busy', when a lock was not to be
-- had. First it keeps writers out of this segment alone (nobody writes there but who chose it before it was
-- closed) and proves that it is not needed, however long that takes. Only then it asks for the locks that all
-- wait for: five times, 20 ms each; under them it does nothing but TRUNCATE. The exclusive rotate lock, because TRUNCATE is
-- not safe beside a statement with an older snapshot, which would see neither a row here nor where it moved.
-- Where that lock was not to be had, commits may take longer: round after round the last attempt waits for 40, 80, 160, 320 and 600 ms, and then it begins anew. Who
-- asks for it meanwhile waits, too, until those have committed who have it; so not where one of them keeps it. How many rounds: housekeeping.id, which nothing else uses once all jobs are moved.
-- Commits asynchronously, so that nobody waits for a standby under the locks; the server writes its own log first.
-- Invariant: only the oldest segment that is not empty, because a settlement is never in an older one than its claim.
CREATE OR REPLACE FUNCTION {schema}.truncate_segment(p_segment smallint) RETURNS text
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET lock_timeout = '20ms'
AS $$
DECLARE
    v_leaves text := format('{schema}.job_%1$s, {schema}.claim_%1$s, {schema}.settlement_%1$s, {schema}.result_%1$s, {schema}.event_%1$s', p_segment);
    v_short  text := current_setting('lock_timeout');
    v_long   integer; -- ms: for less than deadlock_timeout, as short_wait
    v_locked boolean;
BEGIN
    IF p_segment = {schema}.current_segment() THEN
        RAISE 'segment % is the current one', p_segment USING ERRCODE = 'WL006';
    END IF;
    PERFORM set_config('synchronous_commit', 'off', true);
    BEGIN
        EXECUTE format('LOCK TABLE %s IN SHARE MODE', v_leaves);
    EXCEPTION WHEN lock_not_available THEN
        RETURN 'busy';
    END;
    IF {schema}.still_needed(p_segment) IS NOT NULL THEN RETURN 'needed'; END IF;
    IF {schema}.uncounted_in(p_segment) THEN RETURN 'busy'; END IF; -- written since maintain looked
    -- pg_dump takes its locks after its snapshot, which may be older than what moved: such a job would be in neither place. Who connects from now on sees where jobs moved. (A name that everybody
    -- may see; the locks that it takes keep TRUNCATE waiting as long as it runs, anyway.)
    IF EXISTS (SELECT 1 FROM pg_stat_activity a WHERE a.datname = current_database() AND a.application_name = 'pg_dump') THEN RETURN 'busy'; END IF;
    PERFORM {schema}.forget_events({schema}.newest_in_segment(p_segment));
    SELECT least(extract(epoch FROM v_short::interval) * 1000 * (1 << (coalesce(h.id, 0) % 6)::integer),
                 1 + 600 * extract(epoch FROM current_setting('deadlock_timeout')::interval)) INTO v_long FROM {schema}.housekeeping h;
    FOR attempt IN 1..5 LOOP
        BEGIN
            v_locked := false;
            DELETE FROM {schema}.moved_claim m USING {schema}.claim k
                WHERE k.segment = p_segment AND k.lane_id = m.lane_id AND k.seq = m.seq;
            IF attempt = 5 AND NOT {schema}.rotate_is_kept() THEN PERFORM set_config('lock_timeout', v_long::text, true); END IF;
            PERFORM pg_advisory_xact_lock(hashtext({name} || '.rotate'), 0);
            PERFORM set_config('lock_timeout', v_short, true);
            v_locked := true;
            -- Whoever reads without the rotate lock (a view, a dump) may do so for long: do not keep all waiting.
            EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE NOWAIT', v_leaves);
            EXECUTE format('TRUNCATE %s', v_leaves);
            RETURN 'emptied';
        EXCEPTION WHEN lock_not_available THEN
            NULL; -- the locks of this attempt are given back
        END;
    END LOOP;
    UPDATE {schema}.housekeeping SET id = coalesce(id, 0) + 1 WHERE lane_id IS NULL AND NOT v_locked;
    RETURN 'busy';
END $$;
