-- Schedules by plain SQL, from any language and any driver, inside the caller's transaction.

-- set_schedule(name, cron, kind, ...): declares a schedule: 'created', 'changed' or 'unchanged'. Its job is as for enqueue.
-- cron: five fields, six with seconds first, an alias (@daily) or an interval (every 90s). zone: a name of the IANA database.
-- jitter: each tick fires up to so much later. overlap: 'allow', 'skip' or 'queue_one'. missed: 'none', 'last', or a number: so many at most.
-- expiry: how long after its tick was enqueued a job may wait to be started.
-- PostgreSQL knows no cron: an expression or a zone that is none is found out by the worker that leads, within moments. It is then the error
-- of the schedule in the view schedules, and the schedule never fires.
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
    v_attributes text := {schema}.attributes_of($14, $15, $16, $17, $18, NULL, $20, $22);
    v_definition jsonb;
BEGIN
    IF $1 IS NULL OR $1 !~ '^[^[:space:][:cntrl:]]+$' OR octet_length($1) > 200 OR $21 IS NULL OR $21 ~ '[[:space:][:cntrl:]]' OR octet_length($21) > 200 THEN
        RAISE 'name and source of a schedule must be at most 200 bytes without spaces or control characters, got % and %',
            coalesce(quote_literal(left($1, 64)), 'NULL'), coalesce(quote_literal(left($21, 64)), 'NULL') USING ERRCODE = 'WL002';
    END IF;
    IF $2 IS NULL OR octet_length($2) > 200 OR $5 IS NULL OR octet_length($5) > 200 THEN
        RAISE 'cron and zone of schedule % must be at most 200 bytes, got %', quote_literal($1), coalesce(quote_literal(left($2, 64)), 'NULL')
            USING ERRCODE = 'WL003';
    END IF;
    -- As each of its jobs will have it, with the longest tick.
    IF octet_length((coalesce($15, '{}') || jsonb_build_object('windlass.schedule', $1, 'windlass.tick', '9999-12-30T22:00:00.999999999Z'))::text) > 8192 THEN
        RAISE 'meta of schedule % is more than 8192 bytes with the name of the schedule and its tick, which each of its jobs gets; shorten it',
            quote_literal($1) USING ERRCODE = 'WL004';
    END IF;
    PERFORM {schema}.check_job($3, $4, $13);
    PERFORM {schema}.check_lane($6, $12);
    IF $8 <= $7 OR NOT isfinite($7) OR NOT isfinite($8) OR $7 < '1970-01-01' OR $8 > '9999-12-30' THEN
        RAISE 'schedule % must end after it starts, and both in the years 1970 to 9999, got % to %', quote_literal($1), $7, $8
            USING ERRCODE = 'WL003';
    END IF;
    IF $9 < '0' OR $9 > '1 day' THEN
        RAISE 'jitter must be 0 to a day, got %', $9 USING ERRCODE = 'WL003';
    END IF;
    IF $10 IS NULL OR $10 NOT IN ('allow', 'skip', 'queue_one') THEN
        RAISE 'overlap must be allow, skip or queue_one, got %', coalesce(quote_literal($10), 'NULL') USING ERRCODE = 'WL003';
    END IF;
    IF $11 IS NULL OR NOT ($11 IN ('none', 'last') OR ($11 ~ '^[0-9]{1,4}$' AND $11::integer BETWEEN 1 AND 1000)) THEN
        RAISE 'missed must be none, last or a number of ticks of 1 to 1000, got %', coalesce(quote_literal($11), 'NULL') USING ERRCODE = 'WL003';
    END IF;
    IF $19 <= '0' OR $19 > '100 years' THEN
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
    RETURN (SELECT a.ids[1] FROM {schema}.advance_schedules(
        ARRAY[s.name], ARRAY[s.version], ARRAY[s.decided], ARRAY[s.next_tick], ARRAY[s.due_at], ARRAY[s.last_tick], ARRAY[s.queued_tick],
        ARRAY[s.error], ARRAY[1], ARRAY[coalesce(s.definition ->> 'queue', 'default')], ARRAY[coalesce((s.definition ->> 'priority')::integer, 0)],
        ARRAY[s.definition ->> 'kind'], ARRAY[s.definition -> 'args'], ARRAY[coalesce((s.definition ->> 'max_attempts')::smallint, 20::smallint)],
        ARRAY[v_attributes::text], ARRAY[(s.definition ->> 'expiry_ms')::bigint * 1000]) AS a);
END $$;

-- schedules: what there is, and what became of it.
CREATE OR REPLACE VIEW {schema}.schedules AS
    SELECT s.name, s.source, s.definition ->> 'cron' AS cron, coalesce(s.definition ->> 'zone', 'UTC') AS zone, s.definition ->> 'kind' AS kind,
        coalesce(s.definition ->> 'queue', 'default') AS queue, s.definition -> 'args' AS args, s.paused, s.next_tick, s.last_tick, s.last_job,
        s.last_enqueued_at, s.queued_tick, s.error, s.definition
    FROM {schema}.schedule s;
