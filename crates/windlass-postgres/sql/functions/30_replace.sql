-- A unique job in the place of one that waits and was not tried yet.

-- bury_untried(id, reason): cancels such a job, unless it waits for its time. Whether it did, and when it was first enqueued. Holds the lane's lock until
-- the transaction ends, as cancel does.
CREATE OR REPLACE FUNCTION {schema}.bury_untried(p_id bigint, p_reason text, OUT buried boolean, OUT since timestamptz)
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
    SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
    SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    f record;
    v_keyed boolean;
BEGIN
    buried := true;
    v_keyed := {schema}.lock_keyed(p_id);
    WITH gone AS (DELETE FROM {schema}.waiting h WHERE h.id = p_id AND (h.state = 'no_handler' OR h.state = 'keyed' AND v_keyed) AND h.attempt = 0 RETURNING h.*)
    INSERT INTO {schema}.dead (id, enqueued_at, lane_id, attempt, max_attempts, crash_count, state, reason, kind, args, attributes)
        SELECT g.id, g.enqueued_at, g.lane_id, g.attempt, g.max_attempts, g.crash_count, 'cancelled', p_reason, g.kind, g.args, g.attributes
        FROM gone g RETURNING enqueued_at INTO since;
    IF FOUND THEN RETURN; END IF;
    FOR attempt IN 1..5 LOOP
        SELECT * INTO f FROM {schema}.find_locked(p_id);
        EXIT WHEN f.place IS DISTINCT FROM 'moved';
    END LOOP;
    IF f.place = 'log' AND f.seq IS NULL THEN
        INSERT INTO {schema}.dead (id, enqueued_at, lane_id, attempt, max_attempts, crash_count, state, reason, kind, args, attributes)
            SELECT j.id, j.enqueued_at, j.lane_id, j.attempt, j.max_attempts, j.crash_count, 'cancelled', p_reason, j.kind, j.args, j.attributes
            FROM {schema}.job j WHERE j.lane_id = f.lane_id AND j.xid = f.xid AND j.id = p_id AND j.attempt = 0
            RETURNING enqueued_at INTO since;
        IF FOUND THEN
            INSERT INTO {schema}.cancelled_in_log (job_id, lane_id, xid) VALUES (p_id, f.lane_id, f.xid);
            RETURN;
        END IF;
    END IF;
    buried := false;
END $$;

-- store_job(id, ...): stores a checked job under an id that was taken for it: in the log, or where it waits for its time.
-- Whether it is in the log.
CREATE OR REPLACE FUNCTION {schema}.store_job(
    p_id bigint, p_lane integer, p_kind text, p_args text, p_max smallint, p_attributes text, p_due timestamptz, p_since timestamptz)
    RETURNS boolean LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF p_due > clock_timestamp() THEN
        INSERT INTO {schema}.waiting (id, lane_id, available_at, state, enqueued_at, max_attempts, kind, args, attributes)
            VALUES (p_id, p_lane, p_due, 'scheduled', p_since, p_max, p_kind, p_args::json, p_attributes);
        RETURN false;
    END IF;
    INSERT INTO {schema}.job (id, enqueued_at, lane_id, segment, max_attempts, kind, args, attributes)
        VALUES (p_id, p_since, p_lane, {schema}.current_segment(), p_max, p_kind, p_args::json, p_attributes);
    RETURN true;
END $$;

-- change_scheduled(id, ...): what waits for its time, and was not tried, becomes another job under its id. Whether it did. It may have run
-- and put itself off: what its handler kept, and who wants that one cancelled, is nothing of the other.
CREATE OR REPLACE FUNCTION {schema}.change_scheduled(
    p_id bigint, p_lane integer, p_kind text, p_args text, p_max smallint, p_attributes text, p_due timestamptz, p_max_wait interval)
    RETURNS boolean LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_due timestamptz;
    v_was timestamptz;
    v_lane integer;
BEGIN
    SELECT least(coalesce(p_due, v_now), h.enqueued_at + p_max_wait), h.available_at INTO v_due, v_was FROM {schema}.waiting h
        WHERE h.id = p_id AND h.state || '' = 'scheduled' AND h.attempt = 0 FOR UPDATE;
    IF NOT FOUND THEN RETURN false; END IF;
    DELETE FROM {schema}.job_report r WHERE r.job_id = p_id;
    DELETE FROM {schema}.attempt_error e WHERE e.job_id = p_id;
    DELETE FROM {schema}.cancel_request q WHERE q.job_id = p_id;
    v_lane := {schema}.lane_for(p_id, p_lane, NULL, NULL); -- not where a row of it is to be stepped over
    IF v_due > v_now THEN
        UPDATE {schema}.waiting h SET lane_id = v_lane, available_at = v_due, kind = p_kind, args = p_args::json, max_attempts = p_max,
            crash_count = 0, attributes = p_attributes WHERE h.id = p_id;
        -- Sooner than those who promote know.
        PERFORM pg_notify({name}, '') WHERE v_due < v_was AND current_setting('windlass.wakeup', true) IS DISTINCT FROM 'off';
        RETURN true;
    END IF;
    WITH gone AS (DELETE FROM {schema}.waiting h WHERE h.id = p_id RETURNING h.*)
    INSERT INTO {schema}.job (id, enqueued_at, lane_id, segment, max_attempts, moved, kind, args, attributes)
        SELECT g.id, g.enqueued_at, v_lane, {schema}.current_segment(), p_max, true, p_kind, p_args::json, p_attributes FROM gone g;
    PERFORM {schema}.note_came_back(v_now);
    RETURN true;
END $$;

-- hand_on_unique(key, id, lane, replaced, until_finished, window): the key, whose row this transaction has, is that job's from now on, and for as long as that one
-- says. A window that runs counts on from when it began where the job took the holder's place: else who replaces again and again would put its end off for ever.
-- until_finished NULL: as the holder had it, for programs that do not say.
CREATE OR REPLACE FUNCTION {schema}.hand_on_unique(
    p_key uuid, p_id bigint, p_lane integer, p_replaced boolean, p_until_finished boolean, p_window bigint) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE
    v_now   timestamptz := clock_timestamp();
    v_had   {schema}.unique_key := (SELECT k FROM {schema}.unique_key k WHERE k.key = p_key);
    v_until boolean := coalesce(p_until_finished, v_had.until_finished);
    v_since timestamptz := v_now;
    v_end   timestamptz;
BEGIN
    IF p_replaced AND (p_window IS NULL OR {schema}.window_runs(v_had.taken_at, v_had.expires)) THEN v_since := v_had.taken_at; END IF;
    v_end := CASE WHEN p_until_finished IS NULL THEN v_had.expires ELSE v_since + p_window * interval '1 microsecond' END;
    -- A new xid: who looked at the holder's terms does not go by them any more.
    UPDATE {schema}.unique_key k
        SET id = p_id, xid = pg_current_xact_id(), lane_id = p_lane, until_finished = v_until, expires = v_end, taken_at = v_since
        WHERE k.key = p_key AND (k.id, k.lane_id, k.until_finished, k.expires) IS DISTINCT FROM (p_id, p_lane, v_until, v_end);
END $$;

-- replace_unique(key, holder, ...): a job for which take_unique answered 3, so that this transaction has the key's row, in the
-- place of the holder, if that was not tried yet. The key is its own from then on, until it says: see hand_on_unique. id: under which it stands now, or the
-- holder's; fate: 0 the holder began meanwhile and has the key no more, so that the job was stored beside it, 1 kept, 4 replaced.
-- Cost: 0.1 ms where the holder waits for its time.
CREATE OR REPLACE FUNCTION {schema}.replace_unique(
    p_key uuid, p_holder bigint, p_lane integer, p_kind text, p_args text, p_max smallint, p_attributes text, p_due timestamptz,
    p_max_wait interval, p_until_finished boolean DEFAULT NULL, p_window bigint DEFAULT NULL, OUT id bigint, OUT fate smallint)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_new  bigint;
    v_old  record;
    v_in_log boolean;
BEGIN
    -- The holder can move between waiting and the log while we look.
    FOR attempt IN 1..5 LOOP
        IF {schema}.change_scheduled(p_holder, p_lane, p_kind, p_args, p_max, p_attributes, p_due, p_max_wait) THEN
            id := p_holder;
            fate := 4;
            -- Its row in the log, if it has one, is another now.
            PERFORM {schema}.hand_on_unique(p_key, p_holder, NULL, true, p_until_finished, p_window);
            RETURN;
        END IF;
        v_new := coalesce(v_new, nextval('{schema}.job_id_seq'));
        PERFORM pg_advisory_xact_lock_shared(hashtext({name} || '.rotate'), 0);
        SELECT * INTO v_old FROM {schema}.bury_untried(p_holder, 'replaced by job ' || v_new);
        EXIT WHEN v_old.buried OR NOT EXISTS (SELECT 1 FROM {schema}.waiting h WHERE h.id = p_holder AND h.state || '' = 'scheduled' AND h.attempt = 0);
    END LOOP;
    IF NOT v_old.buried AND (SELECT h.held FROM {schema}.unique_holders(ARRAY[p_key]) h) THEN
        id := p_holder;
        fate := 1;
        RETURN;
    END IF;
    id := v_new;
    fate := CASE WHEN v_old.buried THEN 4 ELSE 0 END;
    v_in_log := {schema}.store_job(v_new, p_lane, p_kind, p_args, p_max, p_attributes,
        least(coalesce(p_due, clock_timestamp()), v_old.since + p_max_wait), coalesce(v_old.since, clock_timestamp()));
    PERFORM {schema}.hand_on_unique(p_key, v_new, CASE WHEN v_in_log THEN p_lane END, v_old.buried, p_until_finished, p_window);
END $$;

-- put_unique(...): one checked job under its key, in one call. due, or after so many microseconds. id, fate: as take_unique and
-- replace_unique have them.
CREATE OR REPLACE FUNCTION {schema}.put_unique(
    p_key uuid, p_until_finished boolean, p_window bigint, p_rule smallint, p_max_wait bigint, p_lane integer, p_queue text,
    p_kind text, p_args text, p_max smallint, p_attributes text, p_due timestamptz, p_delay bigint,
    OUT id bigint, OUT fate smallint)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    t     record;
    v_due timestamptz := coalesce(p_due, clock_timestamp() + p_delay * interval '1 microsecond');
BEGIN
    PERFORM set_config('windlass.queues', p_queue, true); -- for wake()
    SELECT * INTO t FROM {schema}.take_unique(ARRAY[p_key], ARRAY[p_until_finished], ARRAY[p_window], ARRAY[p_rule],
        ARRAY[CASE WHEN v_due IS NULL THEN p_lane END]);
    id := t.ids[1];
    fate := t.fates[1];
    IF fate = 0 THEN
        PERFORM {schema}.store_job(id, p_lane, p_kind, p_args, p_max, p_attributes, v_due, now());
    ELSIF fate = 3 THEN
        SELECT * INTO id, fate FROM {schema}.replace_unique(p_key, id, p_lane, p_kind, p_args, p_max, p_attributes, v_due,
            p_max_wait * interval '1 microsecond', p_until_finished, p_window);
    END IF;
    IF fate <> 0 THEN PERFORM set_config('windlass.queues', '', true); END IF; -- it is not for what comes next
END $$;

-- take_unique_again(attributes, id): a finished job is to run again: takes the key that its attributes name, if they do. Whether it may:
-- not where another job has the key.
CREATE OR REPLACE FUNCTION {schema}.take_unique_again(p_attributes text, p_id bigint) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
DECLARE
    v_mark jsonb := nullif(p_attributes, '')::jsonb -> 'unique';
    v_key  uuid := (v_mark ->> 'key')::uuid;
    h      record;
BEGIN
    IF v_key IS NULL THEN RETURN true; END IF;
    FOR round IN 1..100 LOOP
        INSERT INTO {schema}.unique_key (key, id, until_finished, check_at)
            VALUES (v_key, p_id, v_mark ->> 'until' <> 'started', clock_timestamp() + interval '1 minute') ON CONFLICT (key) DO NOTHING;
        IF FOUND THEN RETURN true; END IF;
        SELECT * INTO h FROM {schema}.unique_holders(ARRAY[v_key]);
        CONTINUE WHEN NOT FOUND;
        IF h.held AND h.id <> p_id THEN RETURN false; END IF;
        -- A new xid: who saw that this job is finished does not take the key over any more.
        UPDATE {schema}.unique_key k SET id = p_id, xid = pg_current_xact_id(), lane_id = NULL, expires = NULL, taken_at = clock_timestamp(),
            until_finished = v_mark ->> 'until' <> 'started' WHERE k.key = v_key AND k.id = h.id AND k.xid = h.xid;
        IF FOUND THEN RETURN true; END IF;
    END LOOP;
    RETURN false;
END $$;

-- unique_freed(keys): those of these keys that nobody can have any more, of which the caller has the rows. A job that had its key until it was started has it
-- again where it comes back untried: so it is kept for one that is not over. Jobs that have no position in the log are looked for together.
-- Cost: unique_holders for the keys of jobs that have one, find_jobs for the others.
CREATE OR REPLACE FUNCTION {schema}.unique_freed(p_keys uuid[]) RETURNS uuid[]
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_material = off
AS $$
DECLARE
    v_free uuid[];  -- windows that are over
    v_near uuid[];  -- of jobs with a position in the log
    v_look uuid[];  -- and of jobs that have to be looked for
    v_ids  bigint[];
    v_live bigint[];
BEGIN
    SELECT coalesce(array_agg(k.key) FILTER (WHERE NOT {schema}.window_runs(k.taken_at, k.expires)), '{}'),
           coalesce(array_agg(k.key) FILTER (WHERE k.expires IS NULL AND k.lane_id IS NOT NULL), '{}'),
           coalesce(array_agg(k.key) FILTER (WHERE k.expires IS NULL AND k.lane_id IS NULL), '{}')
        INTO v_free, v_near, v_look
        FROM unnest(p_keys) AS u(key) CROSS JOIN LATERAL (SELECT k.* FROM {schema}.unique_key k WHERE k.key = u.key OFFSET 0) AS k;
    SELECT v_free || coalesce(array_agg(h.key) FILTER (WHERE h.until_finished), '{}'),
           v_look || coalesce(array_agg(h.key) FILTER (WHERE NOT h.until_finished), '{}')
        INTO v_free, v_look
        FROM (SELECT k.key, k.until_finished FROM {schema}.unique_holders(v_near) o
              CROSS JOIN LATERAL (SELECT k.* FROM {schema}.unique_key k WHERE k.key = v_near[o.nth] OFFSET 0) AS k WHERE NOT o.held) AS h;
    v_ids := ARRAY(SELECT k.id FROM unnest(v_look) WITH ORDINALITY AS u(key, n)
                   CROSS JOIN LATERAL (SELECT k.id FROM {schema}.unique_key k WHERE k.key = u.key OFFSET 0) AS k ORDER BY u.n);
    v_live := ARRAY(SELECT f.id FROM {schema}.find_jobs(v_ids) f WHERE f.place <> 'dead' AND f.settled_at IS NULL);
    RETURN v_free || ARRAY(SELECT u.key FROM unnest(v_look, v_ids) AS u(key, id) WHERE u.id <> ALL (v_live));
END $$;

-- forget_unique(most): keys that no job has any more. A key is looked at a minute after it was taken, then whenever it is twice as old; a window
-- when it ends. Where the clock was set back since it would be looked at far later: of such keys it looks at some each time. Returns how many it looked at; `most` also when
-- 50 ms were over before it had seen them all: whoever wants one of these keys waits for it.
CREATE OR REPLACE FUNCTION {schema}.forget_unique(p_most integer) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off
    SET enable_seqscan = off SET enable_sort = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    v_now  timestamptz := clock_timestamp();
    v_end  timestamptz := v_now + interval '50 ms';
    v_from timestamptz := '-infinity';
    v_far  timestamptz;
    v_seen integer := 0;
    v_some integer;
    v_keys uuid[];
    v_free uuid[];
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtext({name} || '.rotate'), 0);
    IF {schema}.home_state() = 'moved' THEN RETURN 0; END IF; -- no position in the log means anything then
    -- From any place on, 500: beside them there may be any number of long windows, which are to be looked at as late rightly.
    v_far := (SELECT k.check_at FROM {schema}.unique_key k ORDER BY k.check_at DESC LIMIT 1);
    IF v_far > v_now + interval '1 minute' THEN
        v_far := v_now + random() * (v_far - v_now);
        v_keys := ARRAY(SELECT x.key FROM (SELECT k.* FROM {schema}.unique_key k WHERE k.check_at >= v_far ORDER BY k.check_at LIMIT least(p_most, 500)) AS x
            WHERE CASE WHEN x.expires IS NULL THEN x.check_at - v_now > greatest(v_now - x.taken_at, interval '1 minute') + interval '1 second'
                       ELSE x.taken_at - v_now > x.expires - x.taken_at END);
        UPDATE {schema}.unique_key k SET check_at = v_now WHERE k.key = ANY (ARRAY(SELECT x.key FROM {schema}.unique_key x WHERE x.key = ANY (v_keys) FOR UPDATE SKIP LOCKED));
    END IF;
    LOOP
        v_some := least(200, p_most - v_seen);
        -- Locked first, looked up in a statement of its own: nobody takes them over meanwhile. From where the last ones were: what was there is no more.
        SELECT coalesce(array_agg(d.key), '{}'), coalesce(max(d.check_at), v_from) INTO v_keys, v_from FROM (
            SELECT k.key, k.check_at FROM {schema}.unique_key k WHERE k.check_at >= v_from AND k.check_at < (SELECT clock_timestamp())
            ORDER BY k.check_at LIMIT v_some FOR UPDATE SKIP LOCKED) AS d;
        v_free := {schema}.unique_freed(v_keys);
        DELETE FROM {schema}.unique_key k WHERE k.key = ANY (v_free);
        UPDATE {schema}.unique_key k
            SET check_at = coalesce(k.expires, clock_timestamp() + greatest(clock_timestamp() - k.taken_at, interval '1 minute'))
            WHERE k.key = ANY (ARRAY(SELECT unnest(v_keys) EXCEPT SELECT unnest(v_free)));
        v_seen := v_seen + cardinality(v_keys);
        IF cardinality(v_keys) < v_some OR v_seen >= p_most THEN RETURN v_seen; END IF;
        IF clock_timestamp() > v_end THEN RETURN p_most; END IF;
    END LOOP;
END $$;
