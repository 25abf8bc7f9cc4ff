-- Schedules by plain SQL, from any language and any driver, inside the caller's transaction.

-- check_interval(name, length): refuses what is no length of time from a second to a year, in the words of the programs (crate windlass-schedule, interval.rs). They read it with the crate
-- jiff: `1h 30m`, `90 seconds`, `P1DT12H`, `01:30:00`; the last number may have a fraction, but for days and weeks, which are of 24 hours.
CREATE OR REPLACE FUNCTION {schema}.check_interval(p_name text, p_length text) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_units text[] := '{years?|yrs?|y,months?|mos?|mo,weeks?|wks?|w,days?|d,hours?|hrs?|h,minutes?|mins?|m,seconds?|secs?|s,milliseconds?|millis?|msecs?|ms,microseconds?|micros?|usecs?|us,nanoseconds?|nanos?|nsecs?|ns}';
    v_each  numeric[] := '{NULL,NULL,604800,86400,3600,60,1,0.001,0.000001,0.000000001}';
    v_rest  text := regexp_replace(regexp_replace(p_length, '^[-+]', ''), '[ \t\n\f\r]+ago$', '');
    v_iso   text[] := regexp_match(upper(v_rest), '^P(?:([0-9]+)W)?(?:([0-9]+)D)?(?:T(?:([0-9]+(?:[.,][0-9]{1,9})?)H)?(?:([0-9]+(?:[.,][0-9]{1,9})?)M)?(?:([0-9]+(?:[.,][0-9]{1,9})?)S)?)?$');
    v_time  text[] := regexp_match(v_rest, '^([0-9]+):([0-9]+):([0-9]+(?:[.,][0-9]{1,9})?)$');
    v_part  text[];
    v_sum   numeric := 0;
    v_why   text;
BEGIN
    IF v_iso IS NOT NULL THEN v_rest := concat_ws(' ', v_iso[1] || 'w', v_iso[2] || 'd', v_iso[3] || 'h', v_iso[4] || 'm', v_iso[5] || 's'); END IF;
    IF v_time IS NOT NULL THEN v_rest := format('%sh %sm %ss', v_time[1], v_time[2], v_time[3]); END IF;
    IF v_rest = '' THEN v_why := 'is not a length of time'; END IF;
    FOR u IN 1..cardinality(v_units) LOOP
        v_part := regexp_match(v_rest, '^([0-9]+)([.,][0-9]{1,9})?[ \t\n\f\r]*(?:' || v_units[u] || ')(?![a-z])(,?)[ \t\n\f\r]*(.*)$');
        CONTINUE WHEN v_part IS NULL;
        IF v_part[2] IS NOT NULL AND (u < 5 OR v_part[4] <> '') OR v_part[3] = ',' AND v_part[4] = '' THEN EXIT; END IF;
        v_sum := v_sum + (v_part[1] || coalesce(replace(v_part[2], ',', '.'), ''))::numeric * v_each[u];
        v_rest := v_part[4];
    END LOOP;
    v_why := CASE WHEN v_why IS NOT NULL OR v_rest <> '' THEN 'is not a length of time'
        WHEN v_sum IS NULL THEN 'names months or years, which are of many lengths'
        WHEN p_length ~ '^-' <> p_length ~ 'ago$' OR v_sum NOT BETWEEN 1 AND 31708800 THEN 'is out of range'
        WHEN v_sum * 1000 <> trunc(v_sum * 1000) THEN 'is not in whole milliseconds' END;
    IF v_why IS NOT NULL THEN
        RAISE 'schedule "%": the interval % %; write a second to a year, such as "every 90s", "every 15m" or "every 1h 30m"',
            p_name, to_json(left(p_length, 40)), v_why USING ERRCODE = 'WL003';
    END IF;
END $$;

-- check_cron(name, cron): refuses an expression that is none, in the words of the programs (crate windlass-schedule, cron_fields.rs): which field of it
-- is wrong, and what is allowed.
CREATE OR REPLACE FUNCTION {schema}.check_cron(p_name text, p_cron text) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_text   text := btrim(p_cron, E' \t\n\f\r');
    v_fields text[] := regexp_split_to_array(v_text, E'[ \t\n\f\r]+');
    v_values integer[];
    v_days   integer[];
    v_longest integer;
BEGIN
    IF lower(v_fields[1]) = 'every' THEN
        PERFORM {schema}.check_interval(p_name, btrim(substr(v_text, 6), E' \t\n\f\r'));
        RETURN;
    END IF;
    IF lower(v_text) IN ('@yearly', '@annually', '@monthly', '@weekly', '@daily', '@midnight', '@hourly') THEN RETURN; END IF;
    IF starts_with(v_text, '@') THEN
        RAISE 'schedule "%": unknown alias %; known are @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly', p_name, to_json(v_text)
            USING ERRCODE = 'WL003';
    END IF;
    IF v_text = '' THEN v_fields := '{}'; END IF;
    IF cardinality(v_fields) = 5 THEN v_fields := ARRAY['0'] || v_fields; END IF;
    IF cardinality(v_fields) <> 6 THEN
        RAISE 'schedule "%": % has % fields; write five (minute hour day-of-month month day-of-week), six with seconds first, an alias such as @daily, or an interval such as "every 90s"',
            p_name, to_json(p_cron), cardinality(v_fields) USING ERRCODE = 'WL003';
    END IF;
    FOR f IN 1..6 LOOP
        v_values := {schema}.cron_values(p_name, f, v_fields[f]);
        IF f = 4 THEN
            v_days := v_values;
        ELSIF f = 5 THEN
            v_longest := (SELECT max((ARRAY[31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])[m]) FROM unnest(v_values) AS m);
        END IF;
    END LOOP;
    -- Where a day of the week is named, too, either will do.
    IF v_fields[6] IN ('*', '?') AND NOT v_longest >= ANY (v_days) THEN
        RAISE 'schedule "%": % never ticks: no month has such a day', p_name, to_json(p_cron) USING ERRCODE = 'WL003';
    END IF;
END $$;

-- cron_values(name, field, text): the numbers that a field (1 to 6: second, minute, hour, day of month, month, day of week) selects, of nW the n; NULL
-- where it says more than numbers.
CREATE OR REPLACE FUNCTION {schema}.cron_values(p_name text, p_field integer, p_text text) RETURNS integer[]
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_least  integer := (ARRAY[0, 0, 0, 1, 1, 0])[p_field];
    v_most   integer := (ARRAY[59, 59, 23, 31, 12, 7])[p_field];
    v_names  text[] := CASE p_field WHEN 5 THEN '{JAN,FEB,MAR,APR,MAY,JUN,JUL,AUG,SEP,OCT,NOV,DEC}' WHEN 6 THEN '{SUN,MON,TUE,WED,THU,FRI,SAT}' ELSE '{}' END;
    v_values integer[] := '{}';
    v_more   boolean := false;
    v_part   text;
    v_of     text;
    v_step   text;
    v_ends   text[];
    v_range  integer[];
    v_number integer;
    v_why    text;
BEGIN
    FOREACH v_part IN ARRAY string_to_array(p_text, ',') LOOP
        v_step := CASE WHEN v_part LIKE '%/%' THEN substr(v_part, strpos(v_part, '/') + 1) END;
        v_of := CASE WHEN v_step IS NULL THEN v_part ELSE split_part(v_part, '/', 1) END;
        v_range := CASE WHEN v_of = '*' OR v_part = '?' AND p_field IN (4, 6) THEN ARRAY[v_least, v_most] END;
        v_why := CASE WHEN v_part = '' THEN 'a list has nothing between its commas'
            WHEN v_range IS NOT NULL AND v_step IS NULL AND v_part <> p_text THEN 'it stands alone, not in a list' END;
        v_ends := ARRAY[v_of];
        IF v_why IS NULL AND v_range IS NULL THEN
            IF v_step IS NULL AND p_field = 4 AND upper(v_of) IN ('L', 'LW') THEN
                v_more := true;
                CONTINUE;
            ELSIF v_step IS NULL AND (p_field = 4 AND v_of ~* 'W$' OR p_field = 6 AND v_of ~* 'L$') THEN
                v_ends := ARRAY[left(v_of, -1)];
                v_more := v_more OR p_field = 6;
            ELSIF v_step IS NULL AND p_field = 6 AND v_of LIKE '%#%' THEN
                v_ends := ARRAY[split_part(v_of, '#', 1)];
                v_more := true;
                IF substr(v_of, strpos(v_of, '#') + 1) !~ '^[1-5]$' THEN v_why := 'which one of the month must be #1 to #5'; END IF;
            ELSIF v_of LIKE '%-%' THEN
                v_ends := ARRAY[split_part(v_of, '-', 1), substr(v_of, strpos(v_of, '-') + 1)];
            END IF;
            FOR e IN 1..cardinality(v_ends) LOOP
                EXIT WHEN v_why IS NOT NULL;
                v_number := array_position(v_names, upper(v_ends[e])) - 1 + v_least;
                IF v_number IS NULL AND v_ends[e] ~ '^[0-9]{1,4}$' THEN
                    v_number := v_ends[e]::integer;
                    IF v_number NOT BETWEEN v_least AND v_most THEN v_why := format('%s is out of range', v_number); END IF;
                END IF;
                IF v_number IS NULL THEN v_why := to_json(left(v_ends[e], 20)) || ' is not a value of this field'; END IF;
                v_range[e] := v_number;
            END LOOP;
            IF v_why IS NULL AND v_step IS NOT NULL AND cardinality(v_ends) = 1 THEN
                v_why := format('a step needs a range to step through, as in */%s or %s-%s/%s',
                    CASE WHEN v_step ~ '^0*[0-9]{1,4}$' THEN v_step::integer ELSE 1 END, v_number, v_most, CASE WHEN v_step ~ '^0*[0-9]{1,4}$' THEN v_step::integer ELSE 1 END);
            END IF;
            IF p_field = 6 AND v_range[2] = 0 THEN v_range[2] := 7; END IF; -- MON-SUN
            IF v_why IS NULL AND v_range[1] > v_range[2] THEN v_why := 'a range must not run backwards; write it as a list of two'; END IF;
        END IF;
        IF v_why IS NULL AND v_step IS NOT NULL THEN
            v_number := greatest(v_range[2] - v_range[1], 1);
            IF v_step !~ '^0*[0-9]{1,4}$' OR v_step::integer NOT BETWEEN 1 AND v_number THEN v_why := 'a step here must be 1 to ' || v_number; END IF;
        END IF;
        IF v_why IS NOT NULL THEN
            RAISE 'schedule "%": the % field % is wrong at %: %; allowed are % to %, *, lists (a,b), ranges (a-b), steps (*/n, a-b/n)%', p_name,
                (ARRAY['second', 'minute', 'hour', 'day of month', 'month', 'day of week'])[p_field], to_json(p_text), to_json(v_part), v_why, v_least,
                (ARRAY['59', '59', '23', '31', '12 or JAN to DEC', '7 or SUN to SAT'])[p_field],
                CASE p_field WHEN 4 THEN ', L (last day), LW (last weekday), 15W (weekday nearest to the 15th)' WHEN 6 THEN ', 5L (last Friday), 5#2 (second Friday)' ELSE '' END
                USING ERRCODE = 'WL003';
        END IF;
        v_values := v_values || ARRAY(SELECT generate_series(v_range[1], coalesce(v_range[2], v_range[1]), coalesce(v_step::integer, 1)));
    END LOOP;
    IF p_field = 4 AND string_to_array(upper(p_text), ',') @> '{L,LW}' THEN
        RAISE 'schedule "%": the day of month field % is wrong: L and LW do not go together; make two schedules', p_name, to_json(p_text)
            USING ERRCODE = 'WL003';
    END IF;
    RETURN CASE WHEN NOT v_more THEN v_values END;
END $$;

-- whole_retry_policy(policy): with what it leaves out, as programs write it (RetryPolicy), so that they find a schedule unchanged. What is no policy is left to checked_retry_policy.
CREATE OR REPLACE FUNCTION {schema}.whole_retry_policy(p_policy jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE WHEN jsonb_typeof(p_policy) <> 'object' THEN p_policy
        WHEN p_policy ->> 'backoff' = 'fixed' THEN jsonb_build_object('base_ms', 15000, 'factor', 1, 'max_ms', coalesce(p_policy -> 'base_ms', '15000'), 'jitter', 0) || p_policy
        ELSE '{"backoff": "exponential", "base_ms": 15000, "factor": 2, "max_ms": 86400000, "jitter": 0.1}' || p_policy END
$$;

-- set_schedule(name, cron, kind, ...): declares a schedule: 'created', 'changed' or 'unchanged'. Its job is as for enqueue.
-- cron: five fields, six with seconds first, an alias (@daily) or an interval (every 90s). zone: a name of the IANA database.
-- jitter: each tick fires up to so much later. overlap: 'allow', 'skip' or 'queue_one'. missed: 'none', 'last', or a number: so many at most.
-- expiry: how long after its tick was enqueued a job may wait to be started.
-- An expression or a zone that is none is refused. A zone that PostgreSQL knows and the programs do not is found out by the worker that leads, within moments: it is then the error of the
-- schedule in the view schedules, and the schedule does not fire.
CREATE OR REPLACE FUNCTION {schema}.set_schedule(
    name text, cron text, kind text, args jsonb DEFAULT '{}', zone text DEFAULT 'UTC', queue text DEFAULT 'default',
    starts_at timestamptz DEFAULT NULL, ends_at timestamptz DEFAULT NULL, jitter interval DEFAULT NULL, overlap text DEFAULT 'allow',
    missed text DEFAULT 'last', priority integer DEFAULT 0, max_attempts integer DEFAULT 20,
    key text DEFAULT NULL, meta jsonb DEFAULT NULL, tracked boolean DEFAULT false, timeout interval DEFAULT NULL,
    retry_policy jsonb DEFAULT NULL, expiry interval DEFAULT NULL, tags text[] DEFAULT NULL, source text DEFAULT '',
    cost integer DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_attributes text := {schema}.attributes_of($14, $15, $16, $17, {schema}.whole_retry_policy($18), NULL, $20, $22);
    v_definition jsonb;
BEGIN
    IF $1 IS NULL OR $1 !~ '^[^[:space:][:cntrl:]]+$' OR octet_length($1) > 200 OR $21 IS NULL OR $21 ~ '[[:space:][:cntrl:]]' OR octet_length($21) > 200 THEN
        RAISE 'name and source of a schedule must be at most 200 bytes without spaces or control characters, got % and %',
            coalesce(quote_literal(left($1, 64)), 'NULL'), coalesce(quote_literal(left($21, 64)), 'NULL') USING ERRCODE = 'WL002';
    END IF;
    IF $1 IN ('.', '..') THEN
        RAISE 'invalid name of a schedule %; browsers and proxies take it out of a path, so no page could show it; use another', quote_literal($1)
            USING ERRCODE = 'WL002';
    END IF;
    IF $2 IS NULL OR octet_length($2) > 200 OR $5 IS NULL OR octet_length($5) > 200 THEN
        RAISE 'cron and zone of schedule % must be at most 200 bytes, got %', quote_literal($1), coalesce(quote_literal(left($2, 64)), 'NULL')
            USING ERRCODE = 'WL003';
    END IF;
    PERFORM {schema}.check_cron($1, $2);
    -- PostgreSQL takes abbreviations (CEST) and offsets (+02:00) for zones as well.
    IF upper($5) <> 'UTC' AND NOT EXISTS (SELECT 1 FROM pg_timezone_names z WHERE lower(z.name) = lower($5)) THEN
        RAISE 'schedule "%": unknown time zone %; use a name of the IANA database such as Europe/Berlin, or UTC', $1, to_json(left($5, 40)) USING ERRCODE = 'WL003';
    END IF;
    -- As each of its jobs will have it, with the longest tick.
    IF octet_length((coalesce($15, '{}') || jsonb_build_object('windlass.schedule', $1, 'windlass.tick', '9999-12-30T22:00:00.999999999Z'))::text) > 8192 THEN
        RAISE 'meta of schedule % is more than 8192 bytes with the name of the schedule and its tick, which each of its jobs gets; shorten it',
            quote_literal($1) USING ERRCODE = 'WL004';
    END IF;
    PERFORM {schema}.check_job($3, $4, $13);
    PERFORM {schema}.check_lane($6, $12);
    IF $8 <= $7 OR NOT isfinite($7) OR NOT isfinite($8) OR least($7, $8) < '1970-01-01' OR greatest($7, $8) > '9999-12-30' THEN
        RAISE 'schedule % must end after it starts, and both in the years 1970 to 9999, got % to %', quote_literal($1), $7, $8
            USING ERRCODE = 'WL003';
    END IF;
    IF extract(epoch FROM $9) NOT BETWEEN 0 AND 86400 THEN
        RAISE 'jitter must be 0 to a day, got %', $9 USING ERRCODE = 'WL003';
    END IF;
    IF $10 IS NULL OR $10 NOT IN ('allow', 'skip', 'queue_one') THEN
        RAISE 'overlap must be allow, skip or queue_one, got %', coalesce(quote_literal($10), 'NULL') USING ERRCODE = 'WL003';
    END IF;
    IF $11 IS NULL OR NOT ($11 IN ('none', 'last') OR ($11 ~ '^[0-9]{1,4}$' AND $11::integer BETWEEN 1 AND 1000)) THEN
        RAISE 'missed must be none, last or a number of ticks of 1 to 1000, got %', coalesce(quote_literal($11), 'NULL') USING ERRCODE = 'WL003';
    END IF;
    IF extract(epoch FROM $19) NOT BETWEEN 0.000001 AND 3162240000 THEN
        RAISE 'expiry must be more than 0 and at most 100 years, got %', $19 USING ERRCODE = 'WL003';
    END IF;
    v_definition := jsonb_strip_nulls(jsonb_build_object(
            'cron', $2, 'zone', $5, 'overlap', $10,
            'missed', CASE WHEN $11 ~ '^[0-9]' THEN jsonb_build_object('all', $11::integer) ELSE to_jsonb($11) END,
            -- As programs write it, so that they find it unchanged.
            'starts_at', rtrim(rtrim(to_char($7 AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), '0'), '.') || 'Z',
            'ends_at', rtrim(rtrim(to_char($8 AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), '0'), '.') || 'Z',
            'jitter_ms', nullif(ceil(extract(epoch FROM $9) * 1000)::bigint, 0),
            'kind', $3, 'queue', $6, 'priority', $12, 'max_attempts', $13,
            'expiry_ms', ceil(extract(epoch FROM $19) * 1000)::bigint))
        || jsonb_build_object('args', $4)
        || CASE WHEN v_attributes = '' THEN '{}' ELSE jsonb_build_object('attributes', v_attributes::jsonb) END;
    RETURN (SELECT p.puts[1] FROM {schema}.put_schedules(ARRAY[$1], ARRAY[$21], ARRAY[v_definition::text], NULL) AS p);
END $$;

-- remove_schedule(name), pause_schedule(name), resume_schedule(name): whether there is such a schedule.
CREATE OR REPLACE FUNCTION {schema}.remove_schedule(name text) RETURNS boolean
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$ SELECT ({schema}.remove_schedules(ARRAY[$1]))[1] $$;
CREATE OR REPLACE FUNCTION {schema}.pause_schedule(name text) RETURNS boolean
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$ SELECT ({schema}.pause_schedules(ARRAY[$1], true))[1] $$;
CREATE OR REPLACE FUNCTION {schema}.resume_schedule(name text) RETURNS boolean
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$ SELECT ({schema}.pause_schedules(ARRAY[$1], false))[1] $$;

-- run_schedule(name): enqueues the job of a schedule now, beside its ticks and whether it is paused or not: the id of the job, NULL when there is no
-- such schedule. It counts as the last job where the schedule asks whether that has ended.
-- A step that moves nothing: a worker that decided meanwhile finds another version and decides anew. The row is locked until the caller's transaction ends.
CREATE OR REPLACE FUNCTION {schema}.run_schedule(name text) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    s            {schema}.schedule;
    v_attributes jsonb;
BEGIN
    SELECT t.* INTO s FROM {schema}.schedule t WHERE t.name = $1 COLLATE "C" FOR UPDATE;
    IF NOT FOUND THEN RETURN NULL; END IF;
    -- As Schedule::job_at of the programs: no tick.
    v_attributes := coalesce((s.definition -> 'attributes')::jsonb, '{}');
    v_attributes := v_attributes || jsonb_build_object('meta',
        coalesce(v_attributes -> 'meta', '{}') || jsonb_build_object('windlass.schedule', s.name));
    IF octet_length((v_attributes -> 'meta')::text) > 8192 THEN
        RAISE 'meta of the job of schedule % is more than 8192 bytes with the name of its schedule; set the schedule with less', quote_literal(s.name)
            USING ERRCODE = 'WL004';
    END IF;
    PERFORM {schema}.acted('schedules.run', s.name);
    RETURN (SELECT a.ids[1] FROM {schema}.advance_schedules(
        ARRAY[s.name], ARRAY[s.version], ARRAY[s.decided], ARRAY[s.next_tick], ARRAY[s.due_at], ARRAY[s.last_tick], ARRAY[s.queued_tick],
        ARRAY[s.error], ARRAY[1], ARRAY[coalesce(s.definition ->> 'queue', 'default')], ARRAY[coalesce((s.definition ->> 'priority')::integer, 0)],
        ARRAY[s.definition ->> 'kind'], ARRAY[s.definition -> 'args'], ARRAY[coalesce((s.definition ->> 'max_attempts')::smallint, 20::smallint)],
        ARRAY[v_attributes::text], ARRAY[(s.definition ->> 'expiry_ms')::bigint * 1000]) AS a);
END $$;

-- schedules: what there is, and what became of it. last_job_state: NULL when that job is not kept any more. Cost: job_record for each whose state is read.
SELECT {schema}.keep_view('schedules', $view$
    SELECT s.name, s.source, s.definition ->> 'cron' AS cron, coalesce(s.definition ->> 'zone', 'UTC') AS zone, s.definition ->> 'kind' AS kind,
        coalesce(s.definition ->> 'queue', 'default') AS queue, s.definition -> 'args' AS args, s.paused, s.next_tick, s.last_tick, s.last_job,
        s.last_enqueued_at, s.queued_tick, s.error, s.definition, (SELECT j.state FROM {schema}.job_record(s.last_job) j) AS last_job_state
    FROM {schema}.schedule s$view$);
