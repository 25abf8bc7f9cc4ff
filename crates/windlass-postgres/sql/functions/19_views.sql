-- What people and programs read. The state of a job is derived from the log, never stored.

-- unclaimed: log rows that no claim has handed out, cancelled ones left out.
SELECT {schema}.keep_view('unclaimed', $view$
    SELECT j.* FROM {schema}.cursor k JOIN {schema}.job j ON j.lane_id = k.lane_id
    WHERE j.xid >= pg_snapshot_xmin(k.from_snapshot) AND j.xid < '{direct}'
      AND NOT {schema}.consumed(k.from_snapshot, k.to_snapshot, k.end_xid, k.end_id, j.xid, j.id)
      AND NOT EXISTS (SELECT 1 FROM {schema}.cancelled_in_log s WHERE s.job_id = j.id AND s.lane_id = j.lane_id)$view$);

-- exceptional: jobs that have a row of their own outside the log, in the columns that jobs is made of.
SELECT {schema}.keep_view('exceptional', $view$
    SELECT h.id, CASE WHEN h.state IN ('no_handler', 'keyed') THEN 'available' ELSE h.state END AS state, h.kind, h.lane_id,
           h.attempt, h.max_attempts, h.crash_count, h.args, h.enqueued_at,
           CASE WHEN h.state IN ('scheduled', 'retryable') THEN h.available_at END AS scheduled_at,
           NULL::timestamptz AS claimed_at, NULL::integer AS claimed_by, NULL::timestamptz AS finished_at,
           CASE WHEN h.state = 'no_handler' THEN 'waits for a worker that knows its kind' END AS reason, h.attributes
    FROM {schema}.waiting h
    UNION ALL
    SELECT d.id, d.state, d.kind, d.lane_id, d.attempt, d.max_attempts, d.crash_count, d.args, d.enqueued_at,
           NULL, NULL, NULL, d.finished_at, d.reason, d.attributes
    FROM {schema}.dead d$view$);

-- tags_of(attributes): the tags in what column attributes keeps.
CREATE OR REPLACE FUNCTION {schema}.tags_of(p_attributes text) RETURNS text[]
    LANGUAGE plpgsql IMMUTABLE
AS $$
BEGIN
    IF p_attributes = '' THEN RETURN '{}'; END IF;
    RETURN ARRAY(SELECT pg_catalog.json_array_elements_text(p_attributes::json OPERATOR(pg_catalog.->) 'tags'));
END $$;

-- jobs: every job that is still stored, with its state. Reads the whole log: for a page of jobs use
-- list_jobs, for one job job_record.
SELECT {schema}.keep_view('jobs', $view$
    SELECT s.id, s.state, s.kind, l.queue, l.priority, s.attempt, s.max_attempts, s.crash_count, s.args,
           s.enqueued_at, s.scheduled_at, s.claimed_at, s.claimed_by, s.finished_at, s.reason,
           nullif(s.attributes, '')::json->>'key' AS key, nullif(s.attributes, '')::json->'meta' AS meta, s.result,
           (nullif(s.attributes, '')::json->>'expires_at')::timestamptz AS expires_at,
           {schema}.tags_of(s.attributes) AS tags, nullif(s.attributes, '')::json AS attributes
    FROM (
        SELECT x.*, NULL::json AS result FROM {schema}.exceptional x
        UNION ALL
        SELECT u.id, 'available', u.kind, u.lane_id, u.attempt, u.max_attempts, u.crash_count, u.args, u.enqueued_at,
               NULL, NULL, NULL, NULL, NULL, u.attributes, NULL
        FROM {schema}.unclaimed u
        UNION ALL
        SELECT j.id, CASE WHEN t.completed THEN 'completed' ELSE 'running' END, j.kind, j.lane_id,
               (j.attempt + 1)::smallint, j.max_attempts, j.crash_count, j.args, j.enqueued_at,
               NULL, c.claimed_at, c.worker_id, t.settled_at, NULL, j.attributes,
               {schema}.result_of(c.lane_id, c.seq, j.id)
        FROM {schema}.claim c
        CROSS JOIN LATERAL {schema}.claim_jobs(c.lane_id, c.seq) j
        LEFT JOIN LATERAL {schema}.settlement_of(c.lane_id, c.seq, j.id) AS t ON true
        WHERE c.job_count > 0 AND coalesce(t.completed, true)
    ) AS s
    JOIN {schema}.lane l ON l.id = s.lane_id$view$);

-- job_row: the columns that view jobs began with. list_jobs answers with these, whatever the view gets beside them: older
-- programs know its columns by their number.
SELECT {schema}.keep_view('job_row', $view$
    SELECT id, state, kind, queue, priority, attempt, max_attempts, crash_count, args, enqueued_at, scheduled_at, claimed_at,
           claimed_by, finished_at, reason, key, meta, result
    FROM {schema}.jobs$view$);

-- unclaimed_ranges(lane): what no claim of the lane has handed out, as ascending ranges of the log: rows with
-- (xid, id) > (lo, lo_id) and xid <= hi. Like a claim, steps neither over what was handed out nor over open transactions.
CREATE OR REPLACE FUNCTION {schema}.unclaimed_ranges(p_lane integer, OUT lo xid8[], OUT lo_id bigint[], OUT hi xid8[])
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off
AS $$
DECLARE
    c      record;
    v_next record;
BEGIN
    SELECT k.from_snapshot, k.to_snapshot, k.end_xid, k.end_id INTO c
        FROM {schema}.claim k WHERE k.lane_id = p_lane ORDER BY k.seq DESC LIMIT 1;
    SELECT d.lo, array_fill(0::bigint, ARRAY[cardinality(d.lo)]) AS lo_id, d.hi INTO v_next
        FROM {schema}.delta(coalesce(c.to_snapshot, '4:4:'), pg_current_snapshot()) d;
    IF c.end_xid IS NOT NULL THEN -- what is left of the open difference
        SELECT d.lo, d.hi INTO lo, hi FROM {schema}.delta(c.from_snapshot, c.to_snapshot) d;
        SELECT a.lo, a.lo_id, a.hi INTO lo, lo_id, hi FROM {schema}.after(lo, hi, c.end_xid, c.end_id) a;
    END IF;
    SELECT array_agg(r.lo ORDER BY r.lo), array_agg(r.lo_id ORDER BY r.lo), array_agg(r.hi ORDER BY r.lo) INTO lo, lo_id, hi
        FROM unnest(lo || v_next.lo, lo_id || v_next.lo_id, hi || v_next.hi) AS r(lo, lo_id, hi);
END $$;

-- available_now(queues, kinds): whether a worker of these queues and kinds (none: all) would find a job now, or when those are promoted
-- whose time has come. Jobs of the log and due ones count whatever their kind: a worker that does not know it puts them aside. What was cancelled there does not, but where it is more
-- than 100,000 jobs: claims step over those, and take them away.
-- Cost: four probes per lane, for each job that comes first and was cancelled 0.5 us, and the index entries of what was promoted in it since the oldest open transaction began: some 300 pages for 50,000 jobs.
CREATE OR REPLACE FUNCTION {schema}.available_now(p_queues text[], p_kinds text[]) RETURNS boolean
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    v_lane integer;
    v_now  timestamptz := clock_timestamp();
BEGIN
    FOR v_lane IN SELECT l.id FROM {schema}.lane l WHERE l.queue = ANY (p_queues)
        AND NOT EXISTS (SELECT 1 FROM {schema}.queue q WHERE q.name = l.queue AND q.paused_at IS NOT NULL)
    LOOP
        IF {schema}.waits_for_handler(v_lane, p_kinds)
           -- By index waiting_lane: a state that is no constant can't be looked for in waiting_due, which has the jobs of all lanes.
           OR EXISTS (SELECT 1 FROM unnest(ARRAY['scheduled', 'retryable']) AS s(state) CROSS JOIN LATERAL (
                          SELECT 1 FROM {schema}.waiting h
                          WHERE h.lane_id = v_lane AND h.state = s.state AND h.available_at <= v_now LIMIT 1) AS h)
           OR v_lane < 0 AND ({schema}.key_ready({schema}.key_lane_of(v_lane)) OR {schema}.keys_let_go(v_lane))
           OR {schema}.any_uncancelled(v_lane, 100000)
        THEN RETURN true; END IF;
    END LOOP;
    RETURN false;
END $$;

-- any_uncancelled(lane, most): whether one of the first `most` jobs that no claim of the lane has handed out was not cancelled, or there are more than those.
-- Both are read in the order in which they stand in the log, so no more of one is needed than of the other. Cost: a probe or two, and 0.5 us for each that was
-- cancelled and comes first.
CREATE OR REPLACE FUNCTION {schema}.any_uncancelled(p_lane integer, p_most integer) RETURNS boolean
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET enable_material = off SET max_parallel_workers_per_gather = 0 SET work_mem = '32MB' -- what was cancelled is hashed
AS $$
DECLARE
    u record;
BEGIN
    SELECT * INTO u FROM {schema}.unclaimed_ranges(p_lane);
    IF EXISTS (SELECT 1 FROM unnest(u.lo, u.lo_id, u.hi) AS r(lo, lo_id, hi)
               CROSS JOIN LATERAL (
                   SELECT j.id FROM {schema}.job j
                   WHERE j.lane_id = p_lane AND (j.xid, j.id) > (r.lo, r.lo_id) AND j.xid <= r.hi
                   ORDER BY j.xid, j.id LIMIT 100) AS j
               WHERE (SELECT true FROM {schema}.cancelled_in_log s WHERE s.job_id = j.id AND s.lane_id + 0 = p_lane LIMIT 1) IS NULL) THEN
        RETURN true;
    END IF;
    IF NOT EXISTS (SELECT 1 FROM {schema}.cancelled_ahead(p_lane, u.lo, u.lo_id, u.hi, 1)) THEN RETURN false; END IF;
    IF (SELECT l.jobs FROM {schema}.last_uncancelled(p_lane, u.lo, u.lo_id, u.hi) l) > 0 THEN RETURN true; END IF; -- what was enqueued since
    RETURN EXISTS (
        SELECT 1 FROM (
            SELECT j.id, row_number() OVER () AS nth FROM unnest(u.lo, u.lo_id, u.hi) AS r(lo, lo_id, hi)
            CROSS JOIN LATERAL (
                SELECT j.id FROM {schema}.job j
                WHERE j.lane_id = p_lane AND (j.xid, j.id) > (r.lo, r.lo_id) AND j.xid <= r.hi
                ORDER BY j.xid, j.id LIMIT p_most + 1) AS j
            LIMIT p_most + 1) AS j
        WHERE j.nth > p_most OR j.id NOT IN (SELECT c FROM {schema}.cancelled_ahead(p_lane, u.lo, u.lo_id, u.hi, p_most) c));
END $$;

-- cancelled_ahead(lane, ranges, most): those jobs of these ranges of the log that were cancelled there, so many at most, in the order in which they stand.
CREATE OR REPLACE FUNCTION {schema}.cancelled_ahead(p_lane integer, p_lo xid8[], p_lo_id bigint[], p_hi xid8[], p_most integer) RETURNS SETOF bigint
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET enable_material = off SET max_parallel_workers_per_gather = 0
AS $$
BEGIN
    RETURN QUERY
    SELECT s.job_id FROM unnest(p_lo, p_lo_id, p_hi) AS r(lo, lo_id, hi)
    CROSS JOIN LATERAL (
        SELECT s.job_id FROM {schema}.cancelled_in_log s
        WHERE s.lane_id = p_lane AND (s.xid, s.job_id + 0) > (r.lo, r.lo_id) AND s.xid <= r.hi
        ORDER BY s.xid, s.job_id + 0 LIMIT p_most) AS s
    LIMIT p_most;
END $$;

-- coming(queues): what of these queues becomes available by itself, but for what waits for its time; paused ones have nothing. key_due_ms: how long until the rate of a
-- key allows more of its jobs, NULL where none waits for that. held: how many jobs workers hold whose lease is over and which nobody has ended yet; lease_ms: the longest of
-- those leases.
-- Cost: an index probe or two for each keyed lane of queues with rates of keys; a look at the live workers, and all versions of their rows that an open snapshot keeps; and at
-- the open claims of those whose lease is over. So it is not for who asks many times a second.
CREATE OR REPLACE FUNCTION {schema}.coming(p_queues text[], OUT key_due_ms double precision, OUT held bigint, OUT lease_ms double precision)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    v_queues text[] := ARRAY(SELECT n FROM unnest(p_queues) AS n
        WHERE NOT EXISTS (SELECT 1 FROM {schema}.queue q WHERE q.name = n AND q.paused_at IS NOT NULL));
    v_due    timestamptz;
    v_worker record;
    v_count  bigint;
BEGIN
    -- What is kept for a key may outlive its jobs, so it means nothing where none waits.
    SELECT min({schema}.key_due(q.name)) INTO v_due FROM {schema}.queue q
        WHERE q.name = ANY (v_queues) AND q.key_rates AND EXISTS (
            SELECT 1 FROM {schema}.lane l CROSS JOIN LATERAL (
                SELECT 1 FROM {schema}.waiting h WHERE h.lane_id = l.id AND h.state = 'keyed' LIMIT 1) AS h
            WHERE l.queue = q.name AND l.id < 0);
    key_due_ms := CASE WHEN v_due IS NOT NULL THEN greatest(extract(epoch FROM v_due - clock_timestamp()) * 1000, 0) END;
    held := 0;
    lease_ms := 0;
    FOR v_worker IN SELECT w.id, extract(epoch FROM w.lease) * 1000 AS lease FROM {schema}.worker w
        WHERE w.ended_at IS NULL AND w.heartbeat_at + w.lease < clock_timestamp()
    LOOP
        SELECT coalesce(sum(o.open_count), 0) INTO v_count FROM {schema}.open_claims(v_worker.id) o JOIN {schema}.lane l ON l.id = o.lane_id
            WHERE l.queue = ANY (v_queues);
        IF v_count > 0 THEN
            held := held + v_count;
            lease_ms := greatest(lease_ms, v_worker.lease);
        END IF;
    END LOOP;
END $$;

-- any_available(queues, kinds): the same, and whether workers hold jobs of these queues whose lease is over: for programs of before, which work until there is nothing more by this alone. Cost: as both.
CREATE OR REPLACE FUNCTION {schema}.any_available(p_queues text[], p_kinds text[]) RETURNS boolean
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN {schema}.available_now(p_queues, p_kinds) OR (SELECT c.held > 0 FROM {schema}.coming(p_queues) c);
END $$;

-- lane_counts(lane, exact): how many jobs of a lane are in each state but running. A count is exact up to `exact` rows of its
-- place and an estimate above; its state is then in estimates. oldest: since when the first jobs of the lane could start. Rows of the log that are to be stepped
-- over are none of its jobs: where there are some the last 1,000 rows are looked at, too, so that what was enqueued after a bulk cancellation counts at once.
-- Cost: at most `exact` rows of each place, in the log twice where some are to be stepped over; for each estimate some 1,000 rows or 200 probes.
CREATE OR REPLACE FUNCTION {schema}.lane_counts(
    p_lane integer, p_exact integer, OUT available bigint, OUT scheduled bigint, OUT retryable bigint, OUT no_handler bigint,
    OUT completed bigint, OUT cancelled bigint, OUT discarded bigint, OUT oldest timestamptz, OUT estimates text[])
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET enable_material = off SET max_parallel_workers_per_gather = 0
AS $$
DECLARE
    u       record;
    v_rows  bigint;
    v_jobs  bigint;
    v_state text;
    v_count bigint;
    v_xid   xid8;
    v_at    timestamptz;
    v_gone  boolean;     -- some of the log are to be stepped over
    v_first timestamptz; -- of the first row, whatever it is
    l       record;      -- the last rows
BEGIN
    estimates := '{}';
    SELECT * INTO u FROM {schema}.unclaimed_ranges(p_lane);
    v_gone := EXISTS (SELECT 1 FROM {schema}.cancelled_ahead(p_lane, u.lo, u.lo_id, u.hi, 1));
    -- Of those that came back the first: they stand in the order in which they did.
    SELECT count(*), count(*) FILTER (WHERE NOT x.gone), min(x.enqueued_at), min(x.enqueued_at) FILTER (WHERE NOT x.moved AND NOT x.gone),
           (array_agg(x.xid) FILTER (WHERE x.moved AND NOT x.gone))[1], (array_agg(x.enqueued_at) FILTER (WHERE x.moved AND NOT x.gone))[1]
        INTO v_rows, available, v_first, oldest, v_xid, v_at FROM (
        SELECT j.xid, j.enqueued_at, j.moved,
               v_gone AND j.id IN (SELECT c FROM {schema}.cancelled_ahead(p_lane, u.lo, u.lo_id, u.hi, p_exact + 1) c) AS gone -- hashed
        FROM unnest(u.lo, u.lo_id, u.hi) AS r(lo, lo_id, hi)
        CROSS JOIN LATERAL (
            SELECT j.xid, j.id, j.enqueued_at, j.moved FROM {schema}.job j
            WHERE j.lane_id = p_lane AND (j.xid, j.id) > (r.lo, r.lo_id) AND j.xid <= r.hi
            ORDER BY j.xid, j.id LIMIT p_exact + 1) AS j
        LIMIT p_exact + 1) AS x;
    IF v_xid IS NOT NULL THEN oldest := least(oldest, {schema}.startable_since(v_xid, v_at)); END IF;
    IF v_rows > p_exact THEN
        available := greatest(available, {schema}.unclaimed_estimate(p_lane, u.lo, u.lo_id, u.hi));
        estimates := estimates || 'available'::text;
        IF v_gone THEN
            SELECT * INTO l FROM {schema}.last_uncancelled(p_lane, u.lo, u.lo_id, u.hi);
            available := greatest(available, l.jobs);
            -- Where neither end has one it is somewhere between: no earlier than the first row.
            IF available > 0 THEN oldest := coalesce(oldest, l.oldest, v_first); END IF;
        END IF;
    END IF;

    SELECT count(*), coalesce(sum(x.job_count) FILTER (WHERE x.completed), 0) INTO v_rows, completed FROM (
        SELECT s.completed, s.job_count FROM {schema}.settlement s WHERE s.lane_id = p_lane ORDER BY s.seq DESC LIMIT p_exact + 1) AS x;
    IF v_rows > p_exact THEN -- all that was claimed, by a sample of the claims, and of that the part that completed, by settlements from everywhere: the last ones may all be of one sort
        SELECT coalesce(sum(x.job_count) FILTER (WHERE x.completed), 0), sum(x.job_count) INTO completed, v_jobs
            FROM (SELECT (SELECT s.seq FROM {schema}.settlement s WHERE s.lane_id = p_lane ORDER BY s.seq LIMIT 1) AS first,
                         (SELECT s.seq FROM {schema}.settlement s WHERE s.lane_id = p_lane ORDER BY s.seq DESC LIMIT 1) AS last OFFSET 0) AS r
            CROSS JOIN generate_series(0, 19) AS n
            CROSS JOIN LATERAL (SELECT s.completed, s.job_count FROM {schema}.settlement s
                                WHERE s.lane_id = p_lane AND s.seq >= r.first + n * (r.last - r.first) / 20 ORDER BY s.seq LIMIT 50) AS x;
        v_count := coalesce({schema}.claimed_estimate(p_lane), 0);
        -- Of ranges that were settled as one the first has the count of all: those that were read may have none.
        completed := coalesce(v_count * completed / nullif(v_jobs, 0), v_count);
        estimates := estimates || 'completed'::text;
    END IF;

    FOREACH v_state IN ARRAY ARRAY['keyed', 'scheduled', 'retryable', 'no_handler', 'cancelled', 'discarded'] LOOP
        IF v_state IN ('cancelled', 'discarded') THEN
            SELECT count(*) INTO v_count FROM (
                SELECT 1 FROM {schema}.dead d WHERE d.lane_id = p_lane AND d.state = v_state LIMIT p_exact + 1) AS x;
        ELSE
            SELECT count(*) INTO v_count FROM (
                SELECT 1 FROM {schema}.waiting h WHERE h.lane_id = p_lane AND h.state = v_state LIMIT p_exact + 1) AS x;
        END IF;
        IF v_count > p_exact THEN
            v_count := greatest(v_count, {schema}.state_estimate(p_lane, v_state));
            estimates := estimates || CASE WHEN v_state IN ('no_handler', 'keyed') THEN 'available' ELSE v_state END;
        END IF;
        CASE v_state
            WHEN 'scheduled' THEN scheduled := v_count;
            WHEN 'retryable' THEN retryable := v_count;
            WHEN 'no_handler' THEN no_handler := v_count;
            WHEN 'keyed' THEN
                available := available + v_count;
                oldest := least(oldest, (SELECT h.available_at FROM {schema}.waiting h WHERE h.lane_id = p_lane AND h.state = 'keyed'
                                         ORDER BY h.lane_id, h.state, h.available_at LIMIT 1));
            WHEN 'cancelled' THEN cancelled := v_count;
            ELSE discarded := v_count;
        END CASE;
    END LOOP;
END $$;

-- no_handler_since(lane): since when the first job of the lane waits that no worker knew. Cost: an index probe.
CREATE OR REPLACE FUNCTION {schema}.no_handler_since(p_lane integer) RETURNS timestamptz
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
AS $$
BEGIN
    RETURN (SELECT h.available_at FROM {schema}.waiting h WHERE h.lane_id = p_lane AND h.state = 'no_handler'
            ORDER BY h.lane_id, h.state, h.available_at, h.id + 0 LIMIT 1);
END $$;

-- page_tids(first, pages, rows): places where rows may lie: `rows` in each of at most 128 pages, evenly spread over `pages` pages from
-- `first` on and over the 120 that a page of jobs has at most.
CREATE OR REPLACE FUNCTION {schema}.page_tids(p_first bigint, p_pages bigint, p_rows integer) RETURNS tid[]
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
    SELECT ARRAY(SELECT ('(' || p_first + (n * p_pages + p_pages / 2) / least(p_pages, 128) || ','
                         || 1 + (r * 120 / p_rows + n * 7) % 120 || ')')::tid
                 FROM generate_series(0, least(p_pages, 128) - 1) AS n, generate_series(0, p_rows - 1) AS r)
$$;

-- rows_in_page(pages): in how many places of a page to look, so that some 1,000 of so many pages are looked at.
CREATE OR REPLACE FUNCTION {schema}.rows_in_page(p_pages bigint) RETURNS integer
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$ SELECT least(120, greatest(8, 1024 / greatest(p_pages, 1)))::integer $$;

-- unclaimed_estimate(lane, ranges): about how many jobs the ranges of the log hold, which are the lane's unclaimed ones. The log
-- grows at its end, so they lie, in each leaf, behind the page of the first of them; some of the places there are looked at.
CREATE OR REPLACE FUNCTION {schema}.unclaimed_estimate(p_lane integer, p_lo xid8[], p_lo_id bigint[], p_hi xid8[]) RETURNS bigint
    LANGUAGE plpgsql STABLE
AS $$
DECLARE
    k       {schema}.cursor;
    v_sum   numeric := 0;
    v_first bigint;
    v_pages bigint;
    v_rows  bigint;
BEGIN
    SELECT * INTO k FROM {schema}.cursor c WHERE c.lane_id = p_lane;
    FOR v_segment IN 0..3 LOOP
        SELECT (j.ctid::text::point)[0]::bigint INTO v_first FROM unnest(p_lo, p_lo_id, p_hi) AS r(lo, lo_id, hi)
            CROSS JOIN LATERAL (
                SELECT j.ctid FROM {schema}.job j
                WHERE j.segment = v_segment AND j.lane_id = p_lane AND (j.xid, j.id) > (r.lo, r.lo_id) AND j.xid <= r.hi
                ORDER BY j.xid, j.id LIMIT 1) AS j
            LIMIT 1;
        CONTINUE WHEN NOT FOUND;
        v_pages := pg_relation_size(format('{schema}.job_%s', v_segment)::regclass) / current_setting('block_size')::integer - v_first;
        v_rows := {schema}.unclaimed_on_pages(k, v_segment, {schema}.page_tids(v_first, v_pages, {schema}.rows_in_page(v_pages)));
        v_sum := v_sum + v_rows * v_pages * 120.0 / (least(v_pages, 128) * {schema}.rows_in_page(v_pages));
    END LOOP;
    RETURN v_sum;
END $$;

-- last_uncancelled(lane, ranges): how many of the last 1,000 jobs of these ranges, which no claim has handed out, were not cancelled, and since when the first of them waits.
CREATE OR REPLACE FUNCTION {schema}.last_uncancelled(p_lane integer, p_lo xid8[], p_lo_id bigint[], p_hi xid8[], OUT jobs bigint, OUT oldest timestamptz)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET enable_material = off SET max_parallel_workers_per_gather = 0
AS $$
BEGIN
    SELECT count(*), min(CASE WHEN x.moved THEN {schema}.startable_since(x.xid, x.enqueued_at) ELSE x.enqueued_at END) INTO jobs, oldest FROM (
        SELECT j.* FROM (SELECT * FROM unnest(p_lo, p_lo_id, p_hi) WITH ORDINALITY AS r(lo, lo_id, hi, n) ORDER BY r.n DESC) AS r
        CROSS JOIN LATERAL (
            SELECT j.xid, j.id, j.enqueued_at, j.moved FROM {schema}.job j
            WHERE j.lane_id = p_lane AND (j.xid, j.id) > (r.lo, r.lo_id) AND j.xid <= r.hi
            ORDER BY j.xid DESC, j.id DESC LIMIT 1000) AS j
        LIMIT 1000) AS x
    WHERE (SELECT true FROM {schema}.cancelled_in_log s WHERE s.job_id = x.id AND s.lane_id + 0 = p_lane LIMIT 1) IS NULL;
END $$;

-- uncancelled(lane, ids): how many of these jobs, which stand in the lane's log, were not cancelled there.
CREATE OR REPLACE FUNCTION {schema}.uncancelled(p_lane integer, p_ids bigint[]) RETURNS bigint
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
BEGIN
    RETURN (SELECT count(*) FROM unnest(p_ids) AS u(id)
            WHERE (SELECT true FROM {schema}.cancelled_in_log s WHERE s.job_id = u.id AND s.lane_id + 0 = p_lane LIMIT 1) IS NULL);
END $$;

-- unclaimed_on_pages(cursor, segment, tids): how many unclaimed rows of the cursor's lane, but those to be stepped over, are among these. The settings leave the planner
-- nothing but to go by the tids: it thinks them dear, and compares each row of the lane with each of them.
CREATE OR REPLACE FUNCTION {schema}.unclaimed_on_pages(k {schema}.cursor, p_segment integer, p_tids tid[]) RETURNS bigint
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off
    SET enable_indexscan = off SET enable_indexonlyscan = off SET max_parallel_workers_per_gather = 0
AS $$
BEGIN
    RETURN {schema}.uncancelled(k.lane_id, ARRAY(
            SELECT j.id FROM {schema}.job j
            WHERE j.segment = p_segment AND j.ctid = ANY (p_tids) AND j.lane_id = k.lane_id
              AND j.xid < '{direct}' AND NOT {schema}.consumed(k.from_snapshot, k.to_snapshot, k.end_xid, k.end_id, j.xid, j.id)));
END $$;

-- claimed_estimate(lane): about how many jobs the claims hold that are still stored, by 200 of them.
CREATE OR REPLACE FUNCTION {schema}.claimed_estimate(p_lane integer) RETURNS bigint LANGUAGE plpgsql STABLE
AS $$
DECLARE
    v_low  bigint;
    v_high bigint;
BEGIN
    SELECT k.seq INTO v_low FROM {schema}.claim k WHERE k.lane_id = p_lane ORDER BY k.seq LIMIT 1;
    SELECT k.seq INTO v_high FROM {schema}.claim k WHERE k.lane_id = p_lane ORDER BY k.seq DESC LIMIT 1;
    RETURN (SELECT sum((SELECT k.job_count FROM {schema}.claim k WHERE k.lane_id = p_lane AND k.seq = v_low + n * (v_high - v_low + 1) / 200))
            FROM generate_series(0, 199) AS n) * (v_high - v_low + 1)::numeric / 200;
END $$;

-- state_estimate(lane, state): about how many jobs of a lane are in a state that has rows outside the log, by some of their places. Settings
-- as those of unclaimed_on_pages.
CREATE OR REPLACE FUNCTION {schema}.state_estimate(p_lane integer, p_state text) RETURNS bigint
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off
    SET enable_indexscan = off SET enable_indexonlyscan = off SET max_parallel_workers_per_gather = 0
AS $$
DECLARE
    v_dead  boolean := p_state IN ('cancelled', 'discarded');
    v_pages bigint := pg_relation_size(CASE WHEN v_dead THEN '{schema}.dead' ELSE '{schema}.waiting' END::regclass)
                      / current_setting('block_size')::integer;
    v_tids  tid[] := {schema}.page_tids(0, v_pages, {schema}.rows_in_page(v_pages));
    v_rows  bigint;
BEGIN
    IF v_dead THEN
        SELECT count(*) INTO v_rows FROM {schema}.dead d WHERE d.ctid = ANY (v_tids) AND d.lane_id = p_lane AND d.state = p_state;
    ELSE
        SELECT count(*) INTO v_rows FROM {schema}.waiting h WHERE h.ctid = ANY (v_tids) AND h.lane_id = p_lane AND h.state = p_state;
    END IF;
    RETURN v_rows * v_pages * 120.0 / (least(v_pages, 128) * {schema}.rows_in_page(v_pages));
END $$;

-- counted_exactly(): up to how many rows counts are exact: 10,000, and 1,000 in a store of 1,000 lanes or 64 MiB of jobs.
CREATE OR REPLACE FUNCTION {schema}.counted_exactly() RETURNS integer
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE WHEN (SELECT count(*) FROM (SELECT 1 FROM {schema}.lane LIMIT 1000) AS l) < 1000 AND (
        SELECT sum(pg_relation_size(t)) FROM unnest(ARRAY[
            '{schema}.job_0', '{schema}.job_1', '{schema}.job_2', '{schema}.job_3', '{schema}.waiting', '{schema}.dead']::regclass[]) AS t) < 67108864
        THEN 10000 ELSE 1000 END
$$;

-- queues: counts per queue, of this moment; finished jobs within retention. Those named in estimates are estimates, the others
-- exact; each is exact up to counted_exactly() rows. no_handler: how many of the available ones wait for a worker that knows their kind, and since when the first
-- does. concurrency and after: its limits (see limit_queue); keyed: whether its keys have some.
-- Cost: lane_counts for every lane, 0.1 ms each while they are small and some 4 ms where all states are deep; of queues whose name is
-- given (=, = ANY) for theirs alone.
SELECT {schema}.keep_view('queues', $view$
    SELECT n.name, q.paused_at IS NOT NULL AS paused,
           coalesce(sum(c.available + c.no_handler), 0)::bigint AS available, coalesce(sum(r.running), 0)::bigint AS running,
           coalesce(sum(c.scheduled), 0)::bigint AS scheduled, coalesce(sum(c.retryable), 0)::bigint AS retryable,
           coalesce(sum(c.completed), 0)::bigint AS completed,
           coalesce(sum(c.cancelled), 0)::bigint AS cancelled, coalesce(sum(c.discarded), 0)::bigint AS discarded,
           min(c.oldest) AS oldest_available_at,
           ARRAY(SELECT DISTINCT e FROM unnest(string_to_array(string_agg(array_to_string(c.estimates, ','), ','), ',')) AS e
                 WHERE e <> '' ORDER BY e) AS estimates,
           q.concurrency, q.rate, q.rate_period, q.rate_burst, coalesce(q.keyed, false) AS keyed,
           coalesce(sum(c.no_handler), 0)::bigint AS no_handler,
           min(CASE WHEN c.no_handler > 0 THEN {schema}.no_handler_since(l.id) END) AS oldest_no_handler_at
    FROM (SELECT name FROM {schema}.queue UNION SELECT queue FROM {schema}.lane) AS n
    LEFT JOIN {schema}.queue q ON q.name = n.name
    LEFT JOIN {schema}.lane l ON l.queue = n.name
    LEFT JOIN LATERAL {schema}.lane_counts(l.id, (SELECT {schema}.counted_exactly())) AS c
        ON l.id IS NOT NULL
    LEFT JOIN (SELECT lane_id, sum(open_count) AS running FROM {schema}.open_claims(NULL) GROUP BY lane_id) AS r ON r.lane_id = l.id
    GROUP BY n.name, q.paused_at, q.concurrency, q.rate, q.rate_period, q.rate_burst, q.keyed$view$);
