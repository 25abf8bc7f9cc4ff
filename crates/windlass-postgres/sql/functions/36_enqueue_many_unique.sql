-- Many unique jobs by plain SQL.

-- unique_row(job, nth): a job of enqueue_many_unique, checked, as take_unique, replace_unique and store_taken want it. span: of its window, in microseconds.
CREATE OR REPLACE FUNCTION {schema}.unique_row(
    p_job jsonb, p_nth bigint, OUT key uuid, OUT until_finished boolean, OUT span bigint, OUT rule smallint, OUT max_wait interval,
    OUT queue text, OUT priority integer, OUT kind text, OUT args json, OUT most smallint, OUT attributes text, OUT due timestamptz)
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_until  text := coalesce(p_job->>'unique_until', 'finished');
    v_args   jsonb := coalesce(p_job->'args', '{}');
    v_fields text[];
    v_time   interval;
    v_field  text := 'unique_for';
    o        record;
BEGIN
    PERFORM {schema}.check_members(p_job, p_nth, '{kind,args,unique_key,unique_fields,unique_in,unique_until,unique_for,on_conflict,max_wait,queue,priority,max_attempts,scheduled_at,key,meta,tracked,timeout,retry_policy,expires_at,tags,cost}');
    IF jsonb_typeof(p_job->'unique_key') NOT IN ('string', 'null') THEN
        RAISE 'unique_key of job % must be a string, got %', p_nth, left((p_job->'unique_key')::text, 200) USING ERRCODE = 'WL004';
    END IF;
    IF jsonb_typeof(p_job->'unique_fields') NOT IN ('array', 'null') THEN
        RAISE 'unique_fields of job % must be an array of names, got %', p_nth, left((p_job->'unique_fields')::text, 200) USING ERRCODE = 'WL004';
    END IF;
    IF p_job->'unique_fields' <> 'null' THEN v_fields := ARRAY(SELECT jsonb_array_elements_text(p_job->'unique_fields')); END IF;
    IF p_job ?| '{unique_for,max_wait}' THEN
        BEGIN
            v_time := (p_job->>'unique_for')::interval;
            v_field := 'max_wait'; max_wait := (p_job->>'max_wait')::interval;
        EXCEPTION WHEN data_exception THEN
            RAISE 'field % of job % cannot be read: %', v_field, p_nth, SQLERRM USING ERRCODE = 'WL003';
        END;
    END IF;
    o := {schema}.job_options(p_job, p_nth);
    kind := p_job->>'kind';
    queue := coalesce(p_job->>'queue', 'default');
    priority := o.priority;
    args := v_args::text;
    -- What is short and plain breaks no limit.
    IF (kind ~ '^[!-~]{1,200}$' AND octet_length(args::text) <= 128 AND o.max_attempts = 20) IS NOT TRUE THEN
        PERFORM {schema}.check_job(kind, v_args, o.max_attempts);
    END IF;
    PERFORM {schema}.check_unique_due(o.scheduled_at, o.expires_at);
    rule := {schema}.unique_rule(v_until, v_time, coalesce(p_job->>'on_conflict', 'keep'), max_wait);
    key := {schema}.unique_key_of({schema}.unique_text(kind, queue, v_args, p_job->>'unique_key', v_fields, coalesce(p_job->>'unique_in', 'kind')));
    until_finished := v_until = 'finished';
    span := extract(epoch FROM v_time) * 1000000;
    most := o.max_attempts;
    attributes := {schema}.attributes_of(p_job->>'key', o.meta, o.tracked, o.timeout, o.retry_policy, o.expires_at, o.tags, o.cost);
    IF v_time IS NULL THEN attributes := {schema}.unique_attributes(attributes, key, v_until); END IF;
    due := CASE WHEN o.scheduled_at > clock_timestamp() THEN o.scheduled_at END;
END $$;

-- standing(keys, until_finished, spans, rules): of jobs of one call, one stands for all with its key. places: for each job which one of the keys it has, in the order of
-- the first ones; firsts and acts: for each key the first job, and the rule; stands: the place of its key for each job that stands for all with it.
-- A later one with replace stands for those before it; one with error is refused; where the first keeps and another with the same window extends, it extends;
-- who wants an error where another job has the key wants it whatever comes after.
CREATE OR REPLACE FUNCTION {schema}.standing(
    p_keys uuid[], p_until_finished boolean[], p_spans bigint[], p_rules smallint[],
    OUT places integer[], OUT stands integer[], OUT firsts integer[], OUT acts smallint[])
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_first integer[] := ARRAY(SELECT min(u.n) OVER (PARTITION BY u.key) FROM unnest(p_keys) WITH ORDINALITY AS u(key, n) ORDER BY u.n);
    v_who   integer[] := '{}'; -- stands for the key
    p       integer := 0;
    s       integer;
BEGIN
    places := v_first;
    stands := array_fill(NULL::integer, ARRAY[cardinality(p_keys)]);
    firsts := '{}';
    acts := '{}';
    FOR n IN 1..cardinality(p_keys) LOOP
        IF v_first[n] = n THEN
            p := cardinality(firsts) + 1;
            places[n] := p;
            firsts[p] := n;
            v_who[p] := n;
            acts[p] := p_rules[n];
            CONTINUE;
        END IF;
        p := places[v_first[n]];
        s := v_who[p];
        places[n] := p;
        IF p_rules[n] = 3 THEN
            RAISE 'job %: another job of the same call, job %, has its unique key', n, v_first[n] USING ERRCODE = 'WL007';
        ELSIF p_rules[n] = 2 THEN
            v_who[p] := n;
            acts[p] := CASE acts[p] WHEN 3 THEN 3 ELSE 2 END;
        ELSIF p_rules[n] = 1 AND acts[p] = 0 AND p_until_finished[n] = p_until_finished[s] AND p_spans[n] IS NOT DISTINCT FROM p_spans[s] THEN
            acts[p] := 1;
        END IF;
    END LOOP;
    FOR n IN 1..cardinality(v_who) LOOP
        stands[v_who[n]] := n;
    END LOOP;
END $$;

-- enqueue_many_unique(jobs): an array of objects with the parameters of enqueue_unique as their members, of which only kind has to be there. Of each, in order, which
-- job has its key now and what became of the conflict. All or none. Jobs of the array with one key are one job: see standing. Errors name jobs by their place, from 1.
-- Order of locks: keys as take_unique takes them, then the lanes of jobs that are replaced, in ascending order, so that two calls do not wait for each other.
-- Cost: some 0.1 ms for each job, most of it to check it and to make its key.
CREATE OR REPLACE FUNCTION {schema}.enqueue_many_unique(jobs jsonb) RETURNS TABLE (id bigint, conflict text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
AS $$
#variable_conflict use_column
DECLARE
    b        record; -- of each job of the call
    v_one    record; -- who stands for whom
    t        record; -- of each that stands for all with its key
    v_lanes  integer[];
    v_ids    bigint[];
    v_fates  smallint[];
    v_queues text;
    v_detail text;
    v_done   record;
    r        record;
BEGIN
    PERFORM {schema}.check_array('enqueue_many_unique', jobs);
    IF jobs = '[]' THEN RETURN; END IF;
    SELECT array_agg(u.key) AS keys, array_agg(u.until_finished) AS until, array_agg(u.span) AS spans, array_agg(u.rule) AS rules,
           array_agg(u.max_wait) AS waits, array_agg(u.queue) AS queues, array_agg(u.priority) AS priorities, array_agg(u.kind) AS kinds, array_agg(u.args) AS args,
           array_agg(u.most) AS most, array_agg(u.attributes) AS attributes, array_agg(u.due) AS due
        INTO b FROM (
            SELECT u.* FROM jsonb_array_elements(jobs) WITH ORDINALITY AS j(job, n) CROSS JOIN LATERAL {schema}.unique_row(j.job, j.n) u ORDER BY j.n) AS u;
    WITH lanes AS MATERIALIZED ( -- made in one order by all calls
        SELECT d.queue, d.priority, {schema}.lane_of(d.queue, d.priority) AS lane
        FROM (SELECT DISTINCT u.queue, u.priority FROM unnest(b.queues, b.priorities) AS u(queue, priority) ORDER BY u.queue, u.priority) AS d)
    SELECT array_agg(u.lane), (SELECT string_agg(q.queue, ',') FROM (SELECT DISTINCT l.queue FROM lanes l) AS q HAVING count(*) <= 8) INTO v_lanes, v_queues FROM (
        SELECT (SELECT l.lane FROM lanes l WHERE l.queue = u.queue AND l.priority = u.priority) AS lane
        FROM unnest(b.queues, b.priorities) WITH ORDINALITY AS u(queue, priority, n) ORDER BY u.n) AS u;
    v_one := {schema}.standing(b.keys, b.until, b.spans, b.rules);
    SELECT array_agg(u.key) AS keys, array_agg(u.until) AS until, array_agg(u.span) AS spans, array_agg(u.max_wait) AS waits, array_agg(u.lane) AS lanes,
           array_agg(CASE WHEN u.due IS NULL THEN u.lane END) AS log_lanes, array_agg(u.kind) AS kinds, array_agg(u.args) AS args, array_agg(u.most) AS most,
           array_agg(u.attributes) AS attributes, array_agg(u.due) AS due
        INTO t FROM (
            SELECT u.* FROM unnest(v_one.stands, b.keys, b.until, b.spans, b.waits, v_lanes, b.kinds, b.args, b.most, b.attributes, b.due)
                AS u(place, key, until, span, max_wait, lane, kind, args, most, attributes, due)
            WHERE u.place IS NOT NULL ORDER BY u.place) AS u;
    BEGIN
        SELECT k.ids, k.fates INTO v_ids, v_fates FROM {schema}.take_unique(t.keys, t.until, t.spans, v_one.acts, t.log_lanes) k;
    EXCEPTION WHEN SQLSTATE 'WL007' THEN -- detail: which of those that stand for all, from 0, and the holder
        GET STACKED DIAGNOSTICS v_detail = PG_EXCEPTION_DETAIL;
        RAISE 'job %: job % has its unique key', v_one.firsts[1 + split_part(v_detail, ' ', 1)::integer], split_part(v_detail, ' ', 2) USING ERRCODE = 'WL007';
    END;
    FOR r IN
        SELECT u.* FROM unnest(v_ids, v_fates, t.keys, t.until, t.spans, t.waits, t.lanes, t.kinds, t.args, t.most, t.attributes, t.due)
            WITH ORDINALITY AS u(holder, fate, key, until, span, max_wait, lane, kind, args, most, attributes, due, n)
        CROSS JOIN LATERAL (SELECT k.lane_id FROM {schema}.unique_key k WHERE k.key = u.key LIMIT 1) AS k
        WHERE u.fate = 3 ORDER BY coalesce(k.lane_id, u.lane), u.holder
    LOOP
        PERFORM set_config('windlass.queues', coalesce(v_queues, ''), true); -- for wake()
        SELECT * INTO v_done FROM {schema}.replace_unique(r.key, r.holder, r.lane, r.kind, r.args::text, r.most, r.attributes, r.due, r.max_wait, r.until, r.span);
        v_ids[r.n] := v_done.id;
        v_fates[r.n] := CASE v_done.fate WHEN 0 THEN -1 ELSE v_done.fate END; -- -1: stored already, without a conflict
    END LOOP;
    PERFORM set_config('windlass.queues', CASE WHEN 0 = ANY (v_fates) THEN coalesce(v_queues, '') ELSE '' END, true);
    IF 0 = ANY (v_fates) THEN PERFORM {schema}.store_taken(v_ids, v_fates, t.lanes, t.due, t.kinds, t.args, t.most, t.attributes); END IF;
    RETURN QUERY
        SELECT v_ids[s.place], CASE
            WHEN s.did IS NULL THEN CASE WHEN v_one.firsts[s.place] = s.n THEN NULL ELSE s.does END
            WHEN s.did = s.does THEN s.does
            ELSE 'kept' END -- what the one that stands for it did, it did not do itself
        FROM (
            SELECT u.n, u.place, CASE v_fates[u.place] WHEN 1 THEN 'kept' WHEN 2 THEN 'extended' WHEN 4 THEN 'replaced' END AS did,
                   CASE u.rule WHEN 1 THEN 'extended' WHEN 2 THEN 'replaced' ELSE 'kept' END AS does
            FROM unnest(v_one.places, b.rules) WITH ORDINALITY AS u(place, rule, n)) AS s
        ORDER BY s.n;
END $$;
