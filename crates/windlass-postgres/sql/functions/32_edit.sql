-- Changing and deleting jobs that no worker holds.
--
-- Rows of the log never change. A job that stands there unclaimed is taken out as cancel does it, by an entry in
-- cancelled_in_log, and written anew: into waiting, or into the log again. The entry is by id and lane, so the new row stands in
-- another lane, if need be a second one of the same queue and priority.
-- Invariant: a job is never in a lane, live or dead but for cancel, where an entry with its id stands; so a lane has at most one
-- unclaimed row of a job, and no claim has two.

-- lane_for(id, lane, queue, priority): the lane for a job that is in this one now and is to be in that queue at that priority
-- (NULL: as now). This one, if it may be.
CREATE OR REPLACE FUNCTION {schema}.lane_for(p_id bigint, p_lane integer, p_queue text, p_priority integer) RETURNS integer
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
AS $$
DECLARE
    v_queue    text;
    v_priority integer;
    v_lane     integer;
BEGIN
    SELECT coalesce(p_queue, l.queue), coalesce(p_priority, l.priority) INTO v_queue, v_priority FROM {schema}.lane l WHERE l.id = p_lane;
    SELECT l.id INTO v_lane FROM {schema}.lane l
        WHERE l.queue = v_queue AND l.priority = v_priority
          AND (l.id = p_lane OR l.idle_since IS NULL OR l.idle_since > clock_timestamp() - interval '1 day')
          AND NOT EXISTS (SELECT 1 FROM {schema}.cancelled_in_log s WHERE s.job_id = p_id AND s.lane_id + 0 = l.id)
        ORDER BY l.id <> p_lane, l.id LIMIT 1;
    IF FOUND THEN RETURN v_lane; END IF;
    v_lane := {schema}.lane_of(v_queue, v_priority); -- checks them, too
    IF EXISTS (SELECT 1 FROM {schema}.cancelled_in_log s WHERE s.job_id = p_id AND s.lane_id + 0 = v_lane) THEN
        INSERT INTO {schema}.lane (queue, priority) VALUES (v_queue, v_priority) RETURNING id INTO v_lane;
    END IF;
    RETURN v_lane;
END $$;

-- edit_job(id, at, delay, queue, priority, max_attempts, args, tells_all): changes what is not NULL of a job that no worker holds; at or a
-- delay in seconds: when it becomes available. 'edited', 'running', 'finished' (it completed; or it is dead and the edit says
-- when), 'encrypted' (args, which are sealed for the job), 'expires' (before that time: it would never run),
-- 'attempts_used' (it would have none left) or 'not_found'. Programs of before do not pass tells_all, and know no 'attempts_used': they are told
-- 'finished', which is left alone, too. What it is given was checked. As cancel, it holds
-- the lane's lock until the transaction ends.
CREATE OR REPLACE FUNCTION {schema}.edit_job(
    p_id bigint, p_at timestamptz, p_delay double precision, p_queue text, p_priority integer, p_max integer, p_args json,
    p_tells_all boolean DEFAULT false) RETURNS text
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off
    SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
    SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    v_at   timestamptz := coalesce(p_at, clock_timestamp() + make_interval(secs => p_delay));
    v_now  boolean := v_at <= clock_timestamp();
    v_due  timestamptz := CASE WHEN p_at IS NOT NULL OR p_delay > 0 THEN v_at END; -- a time, and not at once
    v_noted json := json_build_object('edit', json_strip_nulls(json_build_object('scheduled_at', p_at, 'delay_ms', 1000 * p_delay, 'queue', p_queue,
        'priority', p_priority, 'max_attempts', p_max, 'args', CASE WHEN p_args IS NOT NULL THEN 'changed' END))); -- not what they are
    v_used text := CASE WHEN p_tells_all THEN 'attempts_used' ELSE 'finished' END;
    f      record;
    d      record;
    w      {schema}.waiting; -- as it is to be
    v_keyed boolean;
BEGIN
    PERFORM {schema}.read_committed('edit');
    PERFORM pg_advisory_xact_lock_shared(hashtext({name} || '.rotate'), 0);
    PERFORM {schema}.check_home();
    -- The job can move between waiting, dead and the log while we look; each place is checked under its lock.
    FOR attempt IN 1..5 LOOP
        v_keyed := {schema}.lock_keyed(p_id);
        SELECT * INTO w FROM {schema}.waiting h WHERE h.id = p_id AND (h.state <> 'keyed' OR v_keyed) FOR UPDATE;
        IF FOUND THEN
            IF p_args IS NOT NULL AND {schema}.is_envelope(w.args) THEN RETURN 'encrypted'; END IF;
            IF v_due >= {schema}.expires_at(w.attributes) THEN RETURN 'expires'; END IF;
            IF p_max <= w.attempt THEN RETURN v_used; END IF;
            DELETE FROM {schema}.waiting h WHERE h.id = p_id;
            IF w.state = 'no_handler' AND NOT v_now THEN w.state := 'scheduled'; END IF;
            IF w.state = 'keyed' THEN -- available, as what stands in the log
                w.state := 'scheduled';
                v_now := coalesce(v_now, true);
            END IF;
            -- One that waits for a handler is available already.
            IF w.state <> 'no_handler' THEN w.available_at := coalesce(v_at, w.available_at); END IF;
            v_now := v_now AND w.state <> 'no_handler';
            EXIT;
        END IF;

        SELECT * INTO d FROM {schema}.dead x WHERE x.id = p_id FOR UPDATE;
        IF FOUND THEN
            IF v_at IS NOT NULL THEN RETURN 'finished'; END IF;
            IF p_args IS NOT NULL AND {schema}.is_envelope(d.args) THEN RETURN 'encrypted'; END IF;
            UPDATE {schema}.dead x SET lane_id = {schema}.lane_for(p_id, d.lane_id, p_queue, p_priority),
                   max_attempts = coalesce(p_max, d.max_attempts), args = coalesce(p_args, d.args) WHERE x.id = p_id;
            RETURN {schema}.acted('jobs.edit', 'job ' || p_id, 'edited', v_noted);
        END IF;

        SELECT * INTO f FROM {schema}.find_locked(p_id);
        IF f.place IS NULL THEN RETURN 'not_found'; END IF;
        CONTINUE WHEN f.place <> 'log';
        IF f.settled_at IS NOT NULL THEN RETURN 'finished'; END IF;
        IF f.seq IS NOT NULL THEN RETURN 'running'; END IF;
        SELECT j.id, coalesce(v_at, clock_timestamp()), j.enqueued_at, j.lane_id, j.attempt, j.max_attempts, j.crash_count,
               'scheduled', j.kind, j.args, j.attributes
            INTO w.id, w.available_at, w.enqueued_at, w.lane_id, w.attempt, w.max_attempts, w.crash_count, w.state, w.kind, w.args, w.attributes
            FROM {schema}.job j WHERE j.lane_id = f.lane_id AND j.xid = f.xid AND j.id = p_id;
        IF p_args IS NOT NULL AND {schema}.is_envelope(w.args) THEN RETURN 'encrypted'; END IF;
        IF v_due >= {schema}.expires_at(w.attributes) THEN RETURN 'expires'; END IF;
        IF p_max <= w.attempt THEN RETURN v_used; END IF; -- a dead job gets them anew
        v_now := coalesce(v_now, true);
        -- A repeated edit does not move it again.
        IF v_now AND coalesce(p_max, w.max_attempts) = w.max_attempts AND coalesce(p_args, w.args)::text = w.args::text AND EXISTS (
               SELECT 1 FROM {schema}.lane l WHERE l.id = f.lane_id
               AND l.queue = coalesce(p_queue, l.queue) AND l.priority = coalesce(p_priority, l.priority)) THEN
            RETURN {schema}.acted('jobs.edit', 'job ' || p_id, 'edited', v_noted);
        END IF;
        INSERT INTO {schema}.cancelled_in_log (job_id, lane_id, xid) VALUES (p_id, f.lane_id, f.xid);
        EXIT;
    END LOOP;
    IF w.id IS NULL THEN RETURN 'running'; END IF; -- it kept moving: somebody is working on it

    IF w.attributes <> '' AND p_queue <> (SELECT l.queue FROM {schema}.lane l WHERE l.id = w.lane_id) THEN
        PERFORM {schema}.tell_key(p_id, w.lane_id, w.attributes, true); -- over, in the queue that it leaves
    END IF;
    w.lane_id := {schema}.lane_for(p_id, w.lane_id, p_queue, p_priority);
    w.max_attempts := coalesce(p_max, w.max_attempts);
    w.args := coalesce(p_args, w.args);
    IF v_now THEN
        PERFORM {schema}.note_came_back(clock_timestamp());
        INSERT INTO {schema}.job (id, enqueued_at, lane_id, segment, attempt, max_attempts, crash_count, moved, kind, args, attributes)
            VALUES (p_id, w.enqueued_at, w.lane_id, {schema}.current_segment(), w.attempt, w.max_attempts, w.crash_count, true, w.kind, w.args, w.attributes);
    ELSE
        INSERT INTO {schema}.waiting (id, available_at, enqueued_at, lane_id, attempt, max_attempts, crash_count, moved, state, kind, args, attributes)
            VALUES (p_id, w.available_at, w.enqueued_at, w.lane_id, w.attempt, w.max_attempts, w.crash_count, true, w.state, w.kind, w.args, w.attributes);
    END IF;
    RETURN {schema}.acted('jobs.edit', 'job ' || p_id, 'edited', v_noted);
END $$;

-- edit(id, ...): the same for people and programs in SQL; checks what it is given as enqueue does.
CREATE OR REPLACE FUNCTION {schema}.edit(
    id bigint, scheduled_at timestamptz DEFAULT NULL, queue text DEFAULT NULL, priority integer DEFAULT NULL,
    max_attempts integer DEFAULT NULL, args jsonb DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF coalesce(scheduled_at::text, queue, priority::text, max_attempts::text, args::text) IS NULL THEN
        RAISE 'the edit changes nothing; name scheduled_at, queue, priority, max_attempts or args' USING ERRCODE = 'WL003';
    END IF;
    IF max_attempts NOT BETWEEN 1 AND 1000 THEN
        RAISE 'max_attempts must be 1 to 1000, got %', max_attempts USING ERRCODE = 'WL003';
    END IF;
    PERFORM {schema}.check_scheduled_at(scheduled_at), {schema}.check_args('the edit', args),
            {schema}.check_lane(coalesce(queue, 'default'), coalesce(priority, 0));
    IF {schema}.is_envelope(args::text::json) THEN
        RAISE 'args cannot be set to an encrypted envelope: it is sealed for one job; enqueue another job' USING ERRCODE = 'WL004';
    END IF;
    RETURN {schema}.edit_job(id, scheduled_at, NULL, queue, priority, max_attempts, args::text::json, true);
END $$;

-- expires_at(attributes): from when on the job is not started any more; NULL: never.
CREATE OR REPLACE FUNCTION {schema}.expires_at(p_attributes text) RETURNS timestamptz
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF strpos(p_attributes, '"expires_at"') = 0 THEN RETURN NULL; END IF;
    RETURN (p_attributes::jsonb ->> 'expires_at')::timestamptz;
END $$;

-- is_envelope(args): whether they are encrypted: see docs/design/encryption.md.
CREATE OR REPLACE FUNCTION {schema}.is_envelope(p_args json) RETURNS boolean
    LANGUAGE sql IMMUTABLE AS $$ SELECT starts_with(p_args::text, '{"windlass.enc":') $$;

-- delete(id): removes a job that no worker holds, and the errors of its attempts and what its handlers reported. 'deleted', 'running', 'completed' (it goes with its
-- segment) or 'not_found'. As cancel, it holds the lane's lock until the transaction ends.
CREATE OR REPLACE FUNCTION {schema}.delete(id bigint) RETURNS text
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off
    SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
    SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    p_id   alias for $1;
    f      record;
    v_gone boolean := false;
    v_keyed boolean;
BEGIN
    PERFORM {schema}.read_committed('delete');
    PERFORM pg_advisory_xact_lock_shared(hashtext({name} || '.rotate'), 0);
    PERFORM {schema}.check_home();
    FOR attempt IN 1..5 LOOP
        v_keyed := {schema}.lock_keyed(p_id);
        WITH gone AS (DELETE FROM {schema}.waiting h WHERE h.id = p_id AND (h.state <> 'keyed' OR v_keyed) RETURNING h.*)
        INSERT INTO {schema}.event (job_id, lane_id, attempt, segment, event, kind)
            SELECT g.id, g.lane_id, g.attempt, {schema}.current_segment(), 'deleted', g.kind FROM gone g;
        v_gone := FOUND;
        IF NOT v_gone THEN -- one that was cancelled in the log is stepped over there all the same
            WITH gone AS (DELETE FROM {schema}.dead x WHERE x.id = p_id RETURNING x.*)
            INSERT INTO {schema}.event (job_id, lane_id, attempt, segment, event, kind)
                SELECT g.id, g.lane_id, g.attempt, {schema}.current_segment(), 'deleted', g.kind FROM gone g;
            v_gone := FOUND;
        END IF;
        EXIT WHEN v_gone;
        SELECT * INTO f FROM {schema}.find_locked(p_id);
        IF f.place IS NULL THEN RETURN 'not_found'; END IF;
        CONTINUE WHEN f.place <> 'log';
        IF f.settled_at IS NOT NULL THEN RETURN 'completed'; END IF;
        IF f.seq IS NOT NULL THEN RETURN 'running'; END IF;
        INSERT INTO {schema}.cancelled_in_log (job_id, lane_id, xid) VALUES (p_id, f.lane_id, f.xid);
        INSERT INTO {schema}.event (job_id, lane_id, attempt, segment, event, kind)
            SELECT p_id, j.lane_id, j.attempt, {schema}.current_segment(), 'deleted', j.kind
            FROM {schema}.job j WHERE j.lane_id = f.lane_id AND j.xid = f.xid AND j.id = p_id;
        v_gone := true;
        EXIT;
    END LOOP;
    IF NOT v_gone THEN RETURN 'running'; END IF; -- it kept moving: somebody is working on it
    DELETE FROM {schema}.attempt_error e WHERE e.job_id = p_id;
    DELETE FROM {schema}.cancel_request q WHERE q.job_id = p_id;
    DELETE FROM {schema}.job_report t WHERE t.job_id = p_id;
    RETURN {schema}.acted('jobs.delete', 'job ' || p_id, 'deleted');
END $$;
