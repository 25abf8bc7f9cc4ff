-- Enqueueing by plain SQL, from any language and any driver, inside the caller's transaction.

-- lane_of(queue, priority): the lane's id; makes it on first use. Never waits for another transaction.
CREATE FUNCTION {schema}.lane_of(p_queue text, p_priority integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_lane integer;
BEGIN
    SELECT l.id INTO v_lane FROM {schema}.lane l WHERE l.queue = p_queue AND l.priority = p_priority ORDER BY l.id LIMIT 1;
    IF FOUND THEN RETURN v_lane; END IF;
    IF p_queue IS NULL OR p_queue !~ '^[A-Za-z0-9_.:/-]{1,128}$' THEN
        RAISE 'invalid queue name %; use 1 to 128 of letters, digits and _ - . : /', coalesce(quote_literal(left(p_queue, 64)), 'NULL')
            USING ERRCODE = 'WL002';
    END IF;
    IF p_priority IS NULL OR p_priority NOT BETWEEN -32768 AND 32767 THEN
        RAISE 'priority must be -32768 to 32767, got %', coalesce(p_priority::text, 'NULL') USING ERRCODE = 'WL003';
    END IF;
    INSERT INTO {schema}.lane (queue, priority) VALUES (p_queue, p_priority) RETURNING id INTO v_lane;
    RETURN v_lane;
END $$;

-- enqueue(kind, args, ...): stores one job, returns its id. It becomes available when the caller's
-- transaction commits, or at scheduled_at, and never existed when it rolls back.
CREATE FUNCTION {schema}.enqueue(
    kind text, args jsonb DEFAULT '{}', queue text DEFAULT 'default', priority integer DEFAULT 0,
    max_attempts integer DEFAULT 20, scheduled_at timestamptz DEFAULT NULL) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    p_kind alias for $1; p_args alias for $2; p_max alias for $5; p_at alias for $6;
    v_lane integer := {schema}.lane_of($3, $4);
    v_id   bigint;
BEGIN
    IF p_kind IS NULL OR p_kind !~ '^[^[:space:][:cntrl:]]{1,200}$' THEN
        RAISE 'invalid kind %; use 1 to 200 characters without spaces or control characters', coalesce(quote_literal(left(p_kind, 64)), 'NULL')
            USING ERRCODE = 'WL002';
    END IF;
    IF p_args IS NULL THEN
        RAISE 'args of kind % are NULL; pass a JSON value such as {} or the JSON null', quote_literal(p_kind) USING ERRCODE = 'WL004';
    END IF;
    IF octet_length(p_args::text) > 1048576 THEN
        RAISE 'args of kind % are % bytes, the limit is 1048576; store large data elsewhere and pass a reference',
            quote_literal(p_kind), octet_length(p_args::text) USING ERRCODE = 'WL004';
    END IF;
    IF jsonb_path_exists(p_args, 'strict $.**{64} ? (@.type() == "array" || @.type() == "object")') THEN
        RAISE 'args of kind % nest deeper than 64 levels; flatten them', quote_literal(p_kind) USING ERRCODE = 'WL004';
    END IF;
    IF p_max IS NULL OR p_max NOT BETWEEN 1 AND 1000 THEN
        RAISE 'max_attempts must be 1 to 1000, got %', coalesce(p_max::text, 'NULL') USING ERRCODE = 'WL003';
    END IF;
    IF p_at > clock_timestamp() THEN
        IF NOT isfinite(p_at) THEN
            RAISE 'scheduled_at must be a finite time, got %', p_at USING ERRCODE = 'WL003';
        END IF;
        INSERT INTO {schema}.held (id, lane_id, available_at, state, max_attempts, kind, args)
            VALUES (nextval('{schema}.job_id_seq'), v_lane, p_at, 'scheduled', p_max, p_kind, p_args::text::json)
            RETURNING id INTO v_id;
    ELSE
        INSERT INTO {schema}.job (lane_id, max_attempts, kind, args)
            VALUES (v_lane, p_max, p_kind, p_args::text::json) RETURNING id INTO v_id;
    END IF;
    RETURN v_id;
END $$;

-- enqueue_many(jobs): an array of {"kind": ..., "args"?, "queue"?, "priority"?, "max_attempts"?,
-- "scheduled_at"?}; returns the ids in order. All or none.
CREATE FUNCTION {schema}.enqueue_many(jobs jsonb) RETURNS SETOF bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_job     jsonb;
    v_unknown text;
BEGIN
    IF jsonb_typeof(jobs) IS DISTINCT FROM 'array' THEN
        RAISE 'enqueue_many takes a JSON array of jobs, got %', coalesce(jsonb_typeof(jobs), 'NULL') USING ERRCODE = 'WL004';
    END IF;
    FOR v_job IN SELECT value FROM jsonb_array_elements(jobs) LOOP
        IF jsonb_typeof(v_job) <> 'object' THEN
            RAISE 'each job must be a JSON object, got %', jsonb_typeof(v_job) USING ERRCODE = 'WL004';
        END IF;
        SELECT k INTO v_unknown FROM jsonb_object_keys(v_job) AS k
            WHERE k NOT IN ('kind', 'args', 'queue', 'priority', 'max_attempts', 'scheduled_at') LIMIT 1;
        IF FOUND THEN
            RAISE 'unknown field % in a job; known are kind, args, queue, priority, max_attempts, scheduled_at', quote_literal(v_unknown)
                USING ERRCODE = 'WL004';
        END IF;
        RETURN NEXT {schema}.enqueue(
            v_job->>'kind', coalesce(v_job->'args', '{}'), coalesce(v_job->>'queue', 'default'),
            coalesce((v_job->>'priority')::integer, 0), coalesce((v_job->>'max_attempts')::integer, 20),
            (v_job->>'scheduled_at')::timestamptz);
    END LOOP;
END $$;

-- wake(): after a statement that appended jobs. Notifies only when some worker is idle, because NOTIFY
-- takes a lock of the whole cluster at commit (20k -> 4.9k inserts/s when every insert notifies).
-- An idle worker holds the flag in shared mode on its LISTEN connection; the flag is memory only and
-- vanishes with the worker.
-- Runs once per enqueue, so it names everything in full instead of paying for SET search_path.
CREATE FUNCTION {schema}.wake() RETURNS trigger LANGUAGE plpgsql
AS $$
BEGIN
    IF pg_catalog.pg_try_advisory_lock(pg_catalog.hashtext({idle}), 0) THEN
        PERFORM pg_catalog.pg_advisory_unlock(pg_catalog.hashtext({idle}), 0);
    ELSE
        PERFORM pg_catalog.pg_notify({name}, '');
    END IF;
    RETURN NULL;
END $$;

DO $$
DECLARE
    v_table text;
BEGIN
    FOREACH v_table IN ARRAY ARRAY['job', 'job_0', 'job_1', 'job_2', 'job_3', 'held'] LOOP
        EXECUTE format('CREATE TRIGGER wake AFTER INSERT ON {schema}.%I FOR EACH STATEMENT EXECUTE FUNCTION {schema}.wake()', v_table);
    END LOOP;
END $$;
