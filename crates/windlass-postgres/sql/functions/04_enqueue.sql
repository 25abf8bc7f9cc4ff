-- Enqueueing by plain SQL, from any language and any driver, inside the caller's transaction.

-- unreadable(json): why no handler could read it: a number beyond those of handlers (those of jsonb have no bound; it is more than 300 digits long here),
-- or a depth of more than 64; NULL: any can.
CREATE OR REPLACE FUNCTION {schema}.unreadable(p_json jsonb) RETURNS text
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF octet_length(p_json::text) > 300 AND jsonb_path_exists(p_json, 'strict $.** ? (@.type() == "number" && @.abs() > 1.7976931348623158e308)') THEN RETURN 'number'; END IF;
    IF octet_length(p_json::text) > 128 AND jsonb_path_exists(p_json, 'strict $.**{64} ? (@.type() == "array" || @.type() == "object")') THEN RETURN 'depth'; END IF;
    RETURN NULL;
END $$;

-- attributes_of(key, ...): what only some jobs have, as column attributes keeps it; empty for none. Programs parse it: every
-- value is checked here, and written as they expect it.
CREATE OR REPLACE FUNCTION {schema}.attributes_of(
    p_key text, p_meta jsonb, p_tracked boolean, p_timeout interval, p_retry_policy jsonb, p_expires_at timestamptz, p_tags text[],
    p_cost integer)
    RETURNS text LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_tag text;
    v_why text;
BEGIN
    IF p_key IS NULL AND p_meta IS NULL AND NOT coalesce(p_tracked, false) AND p_timeout IS NULL AND p_retry_policy IS NULL
       AND p_expires_at IS NULL AND coalesce(cardinality(p_tags), 0) = 0 AND coalesce(p_cost, 1) = 1 THEN
        RETURN '';
    END IF;
    IF octet_length(p_key) NOT BETWEEN 1 AND 200 THEN
        RAISE 'a key must be 1 to 200 bytes, got %; hash what is longer', octet_length(p_key) USING ERRCODE = 'WL003';
    END IF;
    IF jsonb_typeof(p_meta) <> 'object' OR octet_length(p_meta::text) > 8192 THEN
        RAISE 'meta must be a JSON object of at most 8192 bytes, got % of % bytes', jsonb_typeof(p_meta), octet_length(p_meta::text)
            USING ERRCODE = 'WL004';
    END IF;
    v_why := {schema}.unreadable(p_meta);
    IF v_why = 'number' THEN
        RAISE 'meta contains a number beyond 1.8e308, which handlers cannot read; write it as a string' USING ERRCODE = 'WL004';
    ELSIF v_why = 'depth' THEN
        RAISE 'meta nests deeper than 64 levels; flatten it' USING ERRCODE = 'WL004';
    END IF;
    -- By seconds, as it is kept: compared as intervals a year has 360 days.
    IF extract(epoch FROM p_timeout) NOT BETWEEN 0.000001 AND 3162240000 THEN
        RAISE 'timeout must be more than 0 and at most 100 years, got %', p_timeout USING ERRCODE = 'WL003';
    END IF;
    IF p_expires_at NOT BETWEEN '1970-01-01 00:00:00+00' AND '9999-12-30 00:00:00+00' THEN
        RAISE 'expires_at must be a time of the years 1970 to 9999, got %', p_expires_at USING ERRCODE = 'WL003';
    END IF;
    IF cardinality(p_tags) > 20 THEN
        RAISE 'a job has at most 20 tags, got %; meta has room for more', cardinality(p_tags) USING ERRCODE = 'WL003';
    END IF;
    IF p_cost NOT BETWEEN 1 AND 1000000 THEN
        RAISE 'the cost of a job must be 1 to 1000000, got %', p_cost USING ERRCODE = 'WL003';
    END IF;
    FOREACH v_tag IN ARRAY coalesce(p_tags, '{}') LOOP
        IF v_tag IS NULL OR octet_length(v_tag) NOT BETWEEN 1 AND 100 OR v_tag ~ '[[:cntrl:]]' THEN
            RAISE 'a tag must be 1 to 100 bytes without control characters, got %', coalesce(quote_literal(left(v_tag, 40)), 'NULL')
                USING ERRCODE = 'WL003';
        END IF;
    END LOOP;
    RETURN jsonb_strip_nulls(jsonb_build_object(
            'key', p_key, 'tracked', nullif(p_tracked, false),
            'timeout_ms', ceil(extract(epoch FROM p_timeout) * 1000)::bigint,
            'retry_policy', {schema}.checked_retry_policy(p_retry_policy),
            'expires_at', to_char(p_expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
            'cost', nullif(p_cost, 1),
            'tags', CASE WHEN cardinality(p_tags) > 0 THEN
                to_jsonb(ARRAY(SELECT t.tag FROM unnest(p_tags) WITH ORDINALITY AS t(tag, n) GROUP BY t.tag ORDER BY min(t.n))) END))
        || CASE WHEN p_meta IS NULL THEN '{}' ELSE jsonb_build_object('meta', p_meta) END;
END $$;

-- checked_retry_policy(policy): {"backoff"?: "exponential" | "linear" | "fixed", "base_ms"?, "factor"?, "max_ms"?, "jitter"?} as programs
-- read it; what is left out is exponential, 15 s, 2, a day, 0.1; where it is fixed: no jitter, no bound.
CREATE OR REPLACE FUNCTION {schema}.checked_retry_policy(p_policy jsonb) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    f record;
    v_number numeric;
    v_most   numeric;
    v_policy jsonb := '{}';
BEGIN
    IF p_policy IS NULL THEN RETURN NULL; END IF;
    IF jsonb_typeof(p_policy) <> 'object' THEN
        RAISE 'retry_policy must be a JSON object such as {"backoff": "linear", "base_ms": 10000}, got %', left(p_policy::text, 40)
            USING ERRCODE = 'WL003';
    END IF;
    FOR f IN SELECT key, value FROM jsonb_each(p_policy) LOOP
        IF f.key = 'backoff' THEN
            IF f.value NOT IN ('"exponential"', '"linear"', '"fixed"') THEN
                RAISE 'backoff must be exponential, linear or fixed, got %', left(f.value::text, 40) USING ERRCODE = 'WL003';
            END IF;
            v_policy := v_policy || jsonb_build_object(f.key, f.value);
            CONTINUE;
        END IF;
        v_most := CASE f.key WHEN 'base_ms' THEN 3162240000000 WHEN 'max_ms' THEN 3162240000000 WHEN 'factor' THEN 1000000
                  WHEN 'jitter' THEN 1 END;
        IF v_most IS NULL THEN
            RAISE 'unknown field % in a retry policy; known are backoff, base_ms, factor, max_ms, jitter', quote_literal(left(f.key, 40))
                USING ERRCODE = 'WL003';
        END IF;
        v_number := CASE WHEN jsonb_typeof(f.value) = 'number' THEN f.value::numeric END;
        IF v_number IS NULL OR v_number NOT BETWEEN (CASE f.key WHEN 'factor' THEN 1 ELSE 0 END) AND v_most THEN
            RAISE '% of a retry policy must be a number of % to %, got %', f.key, CASE f.key WHEN 'factor' THEN 1 ELSE 0 END, v_most,
                left(f.value::text, 40) USING ERRCODE = 'WL003';
        END IF;
        v_policy := v_policy || jsonb_build_object(f.key, CASE WHEN f.key LIKE '%\_ms' THEN ceil(v_number) ELSE round(v_number, 6) END);
    END LOOP;
    RETURN v_policy;
END $$;

-- check_args(of, args): refuses what is beyond the limits; NULL is none of them. of: whose they are, for the message.
CREATE OR REPLACE FUNCTION {schema}.check_args(p_of text, p_args jsonb) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_why text;
BEGIN
    IF octet_length(p_args::text) > 1048576 THEN
        RAISE 'args of % are % bytes, the limit is 1048576; store large data elsewhere and pass a reference', p_of, octet_length(p_args::text)
            USING ERRCODE = 'WL004';
    END IF;
    v_why := {schema}.unreadable(p_args);
    IF v_why = 'number' THEN
        RAISE 'args of % contain a number beyond 1.8e308, which handlers cannot read; write it as a string', p_of USING ERRCODE = 'WL004';
    ELSIF v_why = 'depth' THEN
        RAISE 'args of % nest deeper than 64 levels; flatten them', p_of USING ERRCODE = 'WL004';
    END IF;
END $$;

-- check_scheduled_at(at): refuses what programs cannot read as a time; the past is none of that.
CREATE OR REPLACE FUNCTION {schema}.check_scheduled_at(p_at timestamptz) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF p_at > '9999-12-30 00:00:00+00' THEN
        RAISE 'scheduled_at must be a finite time up to the year 9999, got %', p_at USING ERRCODE = 'WL003';
    END IF;
END $$;

-- check_job(kind, args, max_attempts): refuses what is beyond the limits.
CREATE OR REPLACE FUNCTION {schema}.check_job(p_kind text, p_args jsonb, p_max integer) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- What most kinds are made of first. Which other characters are white space or control ones Unicode says, and not the collation of the database.
    IF p_kind IS NULL OR p_kind !~ '^[!-~]{1,200}$' AND (octet_length(p_kind) NOT BETWEEN 1 AND 200
       OR p_kind ~ '[\u0001-\u0020\u007F-\u00A0\u1680\u2000-\u200A\u2028\u2029\u202F\u205F\u3000]') THEN
        RAISE 'invalid kind %; use 1 to 200 bytes without spaces or control characters', coalesce(quote_literal(left(p_kind, 64)), 'NULL')
            USING ERRCODE = 'WL002';
    END IF;
    IF p_args IS NULL THEN
        RAISE 'args of kind % are NULL; pass a JSON value such as {} or the JSON null', quote_literal(p_kind) USING ERRCODE = 'WL004';
    END IF;
    PERFORM {schema}.check_args('kind ' || quote_literal(p_kind), p_args);
    IF p_max IS NULL OR p_max NOT BETWEEN 1 AND 1000 THEN
        RAISE 'max_attempts must be 1 to 1000, got %', coalesce(p_max::text, 'NULL') USING ERRCODE = 'WL003';
    END IF;
END $$;

-- enqueue(kind, args, ...): stores one job, returns its id. It becomes available when the caller's
-- transaction commits, or at scheduled_at, and never existed when it rolls back. It is not started from expires_at on, but
-- cancelled. cost: what each of its starts takes of the rate that its queue may have.
CREATE OR REPLACE FUNCTION {schema}.enqueue(
    kind text, args jsonb DEFAULT '{}', queue text DEFAULT 'default', priority integer DEFAULT 0,
    max_attempts integer DEFAULT 20, scheduled_at timestamptz DEFAULT NULL,
    key text DEFAULT NULL, meta jsonb DEFAULT NULL, tracked boolean DEFAULT false, timeout interval DEFAULT NULL,
    retry_policy jsonb DEFAULT NULL, expires_at timestamptz DEFAULT NULL, tags text[] DEFAULT NULL,
    cost integer DEFAULT NULL) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    p_kind alias for $1; p_args alias for $2; p_max alias for $5; p_at alias for $6;
    v_lane integer := {schema}.lane_of($3, $4);
    v_attributes text := {schema}.attributes_of($7, $8, $9, $10, $11, $12, $13, $14);
    v_id   bigint;
BEGIN
    PERFORM {schema}.check_job(p_kind, p_args, p_max);
    IF $12 <= p_at THEN
        RAISE 'the job expires at %, but it is due at %: it would never run', $12, p_at USING ERRCODE = 'WL003';
    END IF;
    PERFORM set_config('windlass.queues', $3, true); -- for wake()
    IF p_at > clock_timestamp() THEN
        PERFORM {schema}.check_scheduled_at(p_at);
        INSERT INTO {schema}.waiting (id, lane_id, available_at, state, max_attempts, kind, args, attributes)
            VALUES (nextval('{schema}.job_id_seq'), v_lane, p_at, 'scheduled', p_max, p_kind, p_args::text::json, v_attributes)
            RETURNING id INTO v_id;
    ELSE
        INSERT INTO {schema}.job (lane_id, segment, max_attempts, kind, args, attributes)
            VALUES (v_lane, {schema}.current_segment(), p_max, p_kind, p_args::text::json, v_attributes) RETURNING id INTO v_id;
    END IF;
    RETURN v_id;
END $$;

-- job_options(job, nth): what a job of enqueue_many says beside its kind and args. What cannot be read is refused by the job's place in the
-- array (from 1) and the field's name. A field that is null is as one that is left out.
CREATE OR REPLACE FUNCTION {schema}.job_options(
    p_job jsonb, p_nth bigint, OUT priority integer, OUT max_attempts integer, OUT scheduled_at timestamptz, OUT meta jsonb, OUT tracked boolean,
    OUT timeout interval, OUT retry_policy jsonb, OUT expires_at timestamptz, OUT tags text[], OUT cost integer)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_field text;
BEGIN
    priority := 0;
    max_attempts := 20;
    IF NOT p_job ?| '{priority,max_attempts,scheduled_at,meta,tracked,timeout,retry_policy,expires_at,tags,cost}' THEN RETURN; END IF;
    meta := nullif(p_job->'meta', 'null');
    retry_policy := nullif(p_job->'retry_policy', 'null');
    BEGIN
        v_field := 'priority'; priority := coalesce((p_job->>'priority')::integer, 0);
        v_field := 'max_attempts'; max_attempts := coalesce((p_job->>'max_attempts')::integer, 20);
        v_field := 'scheduled_at'; scheduled_at := (p_job->>'scheduled_at')::timestamptz;
        v_field := 'tracked'; tracked := (p_job->>'tracked')::boolean;
        v_field := 'timeout'; timeout := (p_job->>'timeout')::interval;
        v_field := 'expires_at'; expires_at := (p_job->>'expires_at')::timestamptz;
        v_field := 'tags';
        IF p_job->'tags' <> 'null' THEN tags := ARRAY(SELECT jsonb_array_elements_text(p_job->'tags')); END IF;
        v_field := 'cost'; cost := (p_job->>'cost')::integer;
    EXCEPTION WHEN data_exception THEN
        RAISE 'field % of job % cannot be read: %', v_field, p_nth, SQLERRM USING ERRCODE = 'WL003';
    END;
END $$;

-- check_array(function, jobs): refuses what is no array of jobs.
CREATE OR REPLACE FUNCTION {schema}.check_array(p_function text, p_jobs jsonb) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF jsonb_typeof(p_jobs) IS DISTINCT FROM 'array' THEN
        RAISE '% takes a JSON array of jobs, got %', p_function, coalesce(jsonb_typeof(p_jobs), 'NULL') USING ERRCODE = 'WL004';
    END IF;
END $$;

-- check_members(job, nth, known): refuses a job of an array that has other members, or a kind, queue or key that is no string.
CREATE OR REPLACE FUNCTION {schema}.check_members(p_job jsonb, p_nth bigint, p_known text[]) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_unknown text;
BEGIN
    IF jsonb_typeof(p_job) <> 'object' THEN
        RAISE 'each job must be a JSON object, got %', jsonb_typeof(p_job) USING ERRCODE = 'WL004';
    END IF;
    IF p_job - p_known <> '{}' THEN
        v_unknown := (SELECT k FROM jsonb_object_keys(p_job - p_known) AS k LIMIT 1);
        RAISE 'unknown field % in a job; known are %', quote_literal(v_unknown), array_to_string(p_known, ', ') USING ERRCODE = 'WL004';
    END IF;
    IF jsonb_typeof(p_job->'kind') NOT IN ('string', 'null') OR jsonb_typeof(p_job->'queue') NOT IN ('string', 'null') OR jsonb_typeof(p_job->'key') NOT IN ('string', 'null') THEN
        RAISE 'kind, queue and key of job % must be strings, got %', p_nth, left(jsonb_strip_nulls(jsonb_build_object('kind', p_job->'kind', 'queue', p_job->'queue', 'key', p_job->'key'))::text, 200)
            USING ERRCODE = 'WL004';
    END IF;
END $$;

-- enqueue_many(jobs): an array of {"kind": ..., "args"?, "queue"?, "priority"?, "max_attempts"?,
-- "scheduled_at"?, "key"?, "meta"?, "tracked"?, "timeout"?, "retry_policy"?, "expires_at"?, "tags"?, "cost"?}; returns the ids in order. All or none.
CREATE OR REPLACE FUNCTION {schema}.enqueue_many(jobs jsonb) RETURNS SETOF bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_job     jsonb;
    v_nth     bigint;
    o         record;
BEGIN
    PERFORM {schema}.check_array('enqueue_many', jobs);
    FOR v_job, v_nth IN SELECT j.value, j.ordinality FROM jsonb_array_elements(jobs) WITH ORDINALITY AS j LOOP
        PERFORM {schema}.check_members(v_job, v_nth, '{kind,args,queue,priority,max_attempts,scheduled_at,key,meta,tracked,timeout,retry_policy,expires_at,tags,cost}');
        o := {schema}.job_options(v_job, v_nth);
        RETURN NEXT {schema}.enqueue(
            v_job->>'kind', coalesce(v_job->'args', '{}'), coalesce(v_job->>'queue', 'default'), o.priority, o.max_attempts, o.scheduled_at,
            v_job->>'key', o.meta, o.tracked, o.timeout, o.retry_policy, o.expires_at, o.tags, o.cost);
    END LOOP;
END $$;
