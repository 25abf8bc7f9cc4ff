-- claim(worker, queues, limits, bytes): hands out up to limits[i] jobs of queue queues[i], best priority
-- first, of about bytes[i] bytes of args (32 MiB where not given; always at least one job). One statement is
-- one transaction; it must be READ COMMITTED, so that each statement inside gets a snapshot taken after the
-- lane's lock.
--
-- Result: for each claim a header row (head = lane, seq, token, job_count, queue index, priority; enqueued_at =
-- when the claim was made, so that the worker knows how long its jobs may wait that expire; the rest NULL), then its jobs. A header of lane 0 says that there is more
-- which was not handed out: another claim has the lane just now, or the bytes were used up. Ask again soon. Its second number is 1 where nobody
-- has had anything from those lanes for 100 ms: then somebody has them for longer than claims do, as who changes a job in a transaction that stays open, and to ask soon is in vain. One of lane -1 names a queue
-- that has work, but limits of which the worker has no share, so it gets nothing; programs that know of no limits take it for a claim without jobs.
-- One of lane -2147483648 says in how many ms (its seq) the rate of a key of a queue allows more of the jobs that wait.
-- Of a job attempt is NULL for one that was available from its enqueue on, which has used none up; crash_count is NULL for 0, max_attempts for 20: a value costs five times a NULL to send.
-- Invariants: the lane's advisory transaction lock makes claims of a lane follow one another; a claim row
-- is appended, never changed; the transaction commits asynchronously, because a claim that a server
-- crash forgets only means that its jobs are handed out again (the token then differs).
-- Of many lanes only those that have work are locked, and at most 200, so that workers of 1,000 queues do not
-- fill the server's lock table; of many keyed queues see keyed_to_claim. No lane starves: see lanes_with_work.
-- Cost (2 cores, PostgreSQL 15, 10^6 jobs of 14-byte args): see docs/design/postgres-log.md.
-- Traps that the settings below close: a plan cached while the table was empty made claims 1,000 times
-- slower; a sort or a bitmap scan walks the whole lane. Keep tests/plans.rs green.
-- p_call: the number of this call, larger than that of every call before by this worker (see worker.open_from). Who
-- does not count leaves it out: its claims are always looked at.
CREATE OR REPLACE FUNCTION {schema}.claim(p_worker integer, p_queues text[], p_limits integer[], p_bytes bigint[] DEFAULT NULL,
    p_call bigint DEFAULT 9223372036854775807)
    RETURNS TABLE (head bigint[], xid xid8, id bigint, attempt smallint, max_attempts smallint,
                   crash_count smallint, enqueued_at timestamptz, kind text, args json, attributes text)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET enable_material = off SET max_parallel_workers_per_gather = 0
AS $$
#variable_conflict use_column
DECLARE
    v_kinds   text[];
    v_lanes   integer[];
    v_priorities smallint[];
    v_queues  bigint[];
    v_shares  integer[]; -- of lanes that go before their turn
    v_lane    integer;
    v_priority smallint;
    v_cursor  record;
    i         integer;
    v_queue   integer := 0; -- whose demand v_left and v_bytes are
    v_left    integer;      -- jobs that the queue may still hand out
    v_most    integer;      -- jobs that the lane may still hand out now
    v_ahead   integer;      -- rows that are looked at
    v_steps   integer := 0; -- how often cancelled ones were among them
    v_until   timestamptz;  -- from when on no more is looked at to get past those
    v_bytes   bigint;
    v_got     integer;
    v_locked  integer := 0;
    v_taken   integer[] := '{}'; -- lanes of which somebody else has the lock
    v_busy    boolean := false;
    v_others  boolean := false; -- what is there may be theirs
    v_more    boolean := false;
    v_seq     bigint;
    v_from    pg_snapshot;
    v_to      pg_snapshot;
    v_xid     xid8;
    v_id      bigint;
    v_lo      xid8[];
    v_lo_id   bigint[];
    v_hi      xid8[];
    v_began   timestamptz;
    v_cancelled boolean; -- some of what lies ahead
    v_late    boolean; -- what is seen now may be of later transactions than this one; see table claim
    v_sum     bigint;
    v_limited boolean; -- some queue has limits
    v_without bigint[]; -- those of which the worker has no share; then also those that were seen to
    v_keyed   bigint[]; -- those that have limits of their keys
    v_read    bigint[]; -- those of them that this claim reads
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true), {schema}.read_committed('claim');
    v_kinds := {schema}.fence(p_worker);
    SELECT array_agg(l.id), array_agg(l.priority), array_agg(l.n), NULL::integer[], bool_or(l.limited), array_agg(DISTINCT l.n) FILTER (WHERE l.keyed)
        INTO v_lanes, v_priorities, v_queues, v_shares, v_limited, v_keyed FROM (
        SELECT l.id, l.priority, u.n, q.concurrency IS NOT NULL OR q.rate IS NOT NULL AS limited, q.keyed
        FROM unnest(p_queues, p_limits) WITH ORDINALITY AS u(queue, most, n)
        JOIN {schema}.lane l ON l.queue = u.queue
        LEFT JOIN {schema}.queue q ON q.name = u.queue
        WHERE u.most > 0 AND q.paused_at IS NULL
        ORDER BY u.n, l.priority, l.id) AS l;
    IF v_limited THEN
        v_without := {schema}.without_share(p_worker, p_queues);
        IF v_without <> '{}' THEN
            RETURN QUERY
            SELECT ARRAY[-1, 0, 0, 0, o.n, 0]::bigint[], NULL::xid8, NULL::bigint, NULL::smallint, NULL::smallint, NULL::smallint,
                   NULL::timestamptz, NULL::text, NULL::json, NULL::text
            FROM (SELECT array_agg(l.id) AS ids, array_agg(l.priority) AS priorities, array_agg(l.n) AS queues
                  FROM unnest(v_lanes, v_priorities, v_queues) AS l(id, priority, n) WHERE l.n = ANY (v_without)) AS w
            CROSS JOIN LATERAL {schema}.lanes_with_work(w.ids, w.priorities, w.queues, p_limits) AS k
            CROSS JOIN LATERAL (SELECT DISTINCT u AS n FROM unnest(k.queues) AS u) AS o;
        END IF;
    END IF;
    v_read := v_keyed;
    IF cardinality(v_keyed) + cardinality(v_lanes) > 100 THEN
        SELECT k.keyed, least(k.locks, 100), k.more INTO v_read, v_locked, v_more
            FROM {schema}.keyed_to_claim(v_lanes, v_priorities, v_queues, p_limits, v_keyed, v_without, v_kinds) k;
    END IF;
    FOREACH i IN ARRAY coalesce(v_read, '{}') LOOP
        CONTINUE WHEN i = ANY (v_without);
        RETURN QUERY SELECT * FROM {schema}.claim_keyed_queue(p_worker, p_queues[i], p_limits[i], coalesce(p_bytes[i], 33554432), v_kinds, p_call, i);
    END LOOP;
    v_without := v_without || v_keyed;
    IF v_without <> '{}' THEN
        SELECT array_agg(l.id ORDER BY l.nth), array_agg(l.priority ORDER BY l.nth), array_agg(l.n ORDER BY l.nth)
            INTO v_lanes, v_priorities, v_queues
            FROM unnest(v_lanes, v_priorities, v_queues) WITH ORDINALITY AS l(id, priority, n, nth) WHERE l.n <> ALL (v_without);
    END IF;
    -- A few lanes are simply tried: a look costs half of an empty claim. Of a queue with several lanes one claim
    -- in 16 looks which of them starve.
    IF cardinality(v_lanes) > 8 OR (cardinality(v_lanes) > cardinality(p_queues) AND random() < 0.0625) THEN
        SELECT w.lanes, w.priorities, w.queues, w.shares INTO v_lanes, v_priorities, v_queues, v_shares
            FROM {schema}.lanes_with_work(v_lanes, v_priorities, v_queues, p_limits) w;
    END IF;
    FOR nth IN 1..coalesce(cardinality(v_lanes), 0) LOOP
        v_lane := v_lanes[nth];
        v_priority := v_priorities[nth];
        i := v_queues[nth];
        IF i <> v_queue THEN
            v_queue := i;
            v_others := v_others OR (v_busy AND v_left > 0);
            v_busy := false;
            v_left := p_limits[i];
            v_bytes := coalesce(p_bytes[i], 33554432);
        END IF;
        CONTINUE WHEN v_left <= 0;
        IF v_locked >= 200 OR NOT pg_try_advisory_xact_lock(hashtext({name} || '.lane'), v_lane) THEN
            v_busy := true;
            v_taken := v_taken || v_lane;
            CONTINUE;
        END IF;
        v_locked := v_locked + 1;
        v_most := least(v_left, coalesce(v_shares[nth], v_left));
        -- What is left of the open difference, then a new one; more only to get past cancelled jobs.
        FOR pass IN 1..100 LOOP
            EXIT WHEN v_most <= 0;
            -- One statement for all that the lane's state tells: statements cost more than probes.
            SELECT c.seq, c.from_snapshot, c.to_snapshot, c.end_xid, c.end_id,
                   (SELECT true FROM {schema}.no_handler h WHERE h.lane_id = v_lane ORDER BY h.lane_id DESC, h.kind DESC, h.noted DESC LIMIT 1) AS no_handler,
                   EXISTS (SELECT 1 FROM {schema}.queue q WHERE q.keyed AND q.name = p_queues[i]) AS keyed -- since
                INTO v_cursor
                FROM (SELECT 1) AS one LEFT JOIN LATERAL (
                    SELECT k.seq, k.from_snapshot, k.to_snapshot, k.end_xid, k.end_id
                    FROM {schema}.claim k WHERE k.lane_id = v_lane ORDER BY k.seq DESC LIMIT 1) AS c ON true;
            IF v_cursor.keyed OR v_lane < 0 AND {schema}.unroute(v_lane) THEN -- what is in the log now is seen by the next claim
                v_more := true;
                v_left := 0;
                EXIT;
            END IF;
            IF v_cursor.seq IS NULL AND pass = 1 AND NOT {schema}.may_begin(p_queues[i]) THEN
                v_busy := true;
                v_taken := v_taken || v_lane;
                EXIT;
            END IF;
            IF v_cursor.no_handler AND pass = 1 THEN
                RETURN QUERY SELECT * FROM {schema}.claim_no_handler(p_worker, v_lane, v_most, v_bytes, v_kinds, p_call, i, v_priority);
                GET DIAGNOSTICS v_got = ROW_COUNT;
                IF v_got > 0 THEN
                    v_most := v_most - (v_got - 1);
                    v_left := v_left - (v_got - 1);
                    v_more := true;
                    v_cursor.seq := coalesce(v_cursor.seq, 0) + 1;
                    EXIT WHEN v_most <= 0;
                END IF;
            END IF;
            v_seq := coalesce(v_cursor.seq, 0) + 1;
            v_xid := v_cursor.end_xid;
            v_id := v_cursor.end_id;
            IF v_xid IS NULL THEN
                v_from := coalesce(v_cursor.to_snapshot, '4:4:');
                v_to := pg_current_snapshot();
                SELECT d.lo, d.hi, array_fill(0::bigint, ARRAY[cardinality(d.lo)]), EXISTS (
                           SELECT 1 FROM unnest(d.lo, d.hi) AS r(lo, hi) CROSS JOIN LATERAL (
                               SELECT 1 FROM {schema}.cancelled_in_log s WHERE s.lane_id = v_lane AND s.xid BETWEEN r.lo AND r.hi LIMIT 1) AS s)
                    INTO v_lo, v_hi, v_lo_id, v_cancelled FROM {schema}.delta(v_from, v_to) d;
            ELSE
                v_from := v_cursor.from_snapshot;
                v_to := v_cursor.to_snapshot;
                SELECT d.lo, d.hi INTO v_lo, v_hi FROM {schema}.delta(v_from, v_to) d;
                SELECT a.lo, a.lo_id, a.hi, EXISTS (
                           SELECT 1 FROM unnest(a.lo, a.lo_id, a.hi) AS r(lo, lo_id, hi) CROSS JOIN LATERAL (
                               SELECT 1 FROM {schema}.cancelled_in_log s WHERE s.lane_id = v_lane AND (s.xid, s.job_id + 0) > (r.lo, r.lo_id) AND s.xid <= r.hi LIMIT 1) AS s)
                    INTO v_lo, v_lo_id, v_hi, v_cancelled FROM {schema}.after(v_lo, v_hi, v_xid, v_id) a;
            END IF;
            v_began := clock_timestamp();
            -- Getting past a bulk cancellation would take longer than a call may, and then all of it would be undone: the next one goes on.
            IF v_cancelled AND pass > 1 AND v_steps > 1 AND v_began > v_until THEN
                v_more := true;
                EXIT;
            END IF;
            v_late := pg_current_xact_id_if_assigned() IS NOT NULL;

            -- The hot query: 1.1 us per job. A LATERAL probe per range keeps the index order, and reading the
            -- batch twice beats array_agg + unnest by 60 %. Where jobs are large it hands out none and leaves their bytes
            -- in a setting. Adding up stored sizes costs 7 % of a claim (10^6 jobs by 5,000: 0.745 us per job, 0.69 without). The
            -- server's own compression (pglz) makes args 91 times smaller at most.
            v_got := 0;
            v_sum := 0;
            IF NOT v_cancelled THEN
                RETURN QUERY
                WITH batch AS MATERIALIZED (
                    SELECT j.* FROM unnest(v_lo, v_lo_id, v_hi) AS r(lo, lo_id, hi)
                    CROSS JOIN LATERAL (
                        SELECT j.xid, j.id, CASE WHEN j.moved THEN j.attempt END AS attempt, j.max_attempts, j.crash_count, j.enqueued_at, j.kind, j.args, j.attributes
                        FROM {schema}.job j
                        WHERE j.lane_id = v_lane AND (j.xid, j.id) > (r.lo, r.lo_id) AND j.xid <= r.hi
                        ORDER BY j.xid, j.id LIMIT v_most) AS j
                    LIMIT v_most
                ), last AS (SELECT b.xid, b.id FROM batch b OFFSET v_most - 1 LIMIT 1
                ), counted AS MATERIALIZED (
                    -- The sum of what they are, not stored, is asked for only where it matters (it copies each text), and
                    -- kept in a setting for the next lane.
                    SELECT s.n, CASE WHEN s.n <= 1 OR s.stored * 100 <= v_bytes THEN true
                                     WHEN s.stored > v_bytes THEN set_config('windlass.bytes', s.stored::text, true) IS NULL
                                     ELSE (SELECT set_config('windlass.bytes', sum(octet_length(b.args::text))::text, true)::bigint
                                           FROM batch b) <= v_bytes END AS fits
                    FROM (SELECT count(*) AS n, sum(pg_column_size(b.args)) AS stored FROM batch b) AS s
                ), appended AS (
                    INSERT INTO {schema}.claim (seq, start_xid, start_id, end_xid, end_id, worker_call, lane_id, token, worker_id,
                                                job_count, segment, from_snapshot, to_snapshot, event_pos, event_late)
                    SELECT v_seq, v_xid, v_id, (SELECT l.xid FROM last l), (SELECT l.id FROM last l),
                           p_call, v_lane,
                           (random() * 2147483647)::integer, p_worker, n, (SELECT g.segment FROM {schema}.ring g), v_from, v_to,
                           CASE WHEN v_late THEN {schema}.event_position() ELSE pg_current_xact_id() END, CASE WHEN v_late THEN {schema}.event_late() END
                    FROM counted WHERE n > 0 AND fits
                    RETURNING ARRAY[lane_id, seq, token, job_count, i, v_priority] AS head)
                SELECT a.head, NULL::xid8, NULL::bigint, NULL::smallint, NULL::smallint, NULL::smallint,
                       v_began, NULL::text, NULL::json, NULL::text FROM appended a
                UNION ALL
                SELECT NULL::bigint[], b.xid, b.id, b.attempt, nullif(b.max_attempts, 20), nullif(b.crash_count, 0), b.enqueued_at, b.kind, b.args, b.attributes
                FROM batch b WHERE (SELECT c.fits FROM counted c);
                GET DIAGNOSTICS v_got = ROW_COUNT;
                v_left := v_left - greatest(v_got - 1, 0);
                v_most := v_most - greatest(v_got - 1, 0);
                v_sum := nullif(current_setting('windlass.bytes', true), '')::bigint;
                IF v_sum IS NOT NULL THEN PERFORM set_config('windlass.bytes', '', true); END IF;
                IF v_got > 1 THEN v_bytes := greatest(v_bytes - greatest(v_sum, v_bytes / 100), 1); END IF;
            END IF;
            IF v_cancelled OR v_got = 0 AND v_sum > 0 THEN
                -- The same with two more things to see to, of at most 1,000 rows. Cancelled jobs are stepped over: they
                -- count as the claim's and are settled with it; once there was nothing else, however few jobs it is to hand out, and few where that took its time already, however
                -- many it is to hand out. And args are added up, first as they are stored, so that no more than v_bytes of those is read, then as they are.
                v_ahead := CASE WHEN v_cancelled AND pass > 1 THEN 1000 ELSE least(v_most, CASE WHEN v_cancelled AND v_began > v_until THEN 100 ELSE 1000 END) END;
                RETURN QUERY
                WITH ahead AS MATERIALIZED (
                    SELECT j.*, (SELECT true FROM {schema}.cancelled_in_log s WHERE s.lane_id + 0 = v_lane AND s.job_id = j.id LIMIT 1) AS gone
                    FROM unnest(v_lo, v_lo_id, v_hi) AS r(lo, lo_id, hi)
                    CROSS JOIN LATERAL (
                        SELECT j.xid, j.id, CASE WHEN j.moved THEN j.attempt END AS attempt, j.max_attempts, j.crash_count, j.enqueued_at, j.kind, j.args, j.attributes
                        FROM {schema}.job j
                        WHERE j.lane_id = v_lane AND (j.xid, j.id) > (r.lo, r.lo_id) AND j.xid <= r.hi
                        ORDER BY j.xid, j.id LIMIT v_ahead) AS j
                    LIMIT v_ahead
                ), batch AS MATERIALIZED (
                    SELECT s.* FROM (
                        SELECT t.*, sum(CASE WHEN t.gone IS NULL THEN octet_length(t.args::text) ELSE 0 END) OVER w AS bytes, row_number() OVER w AS nth FROM (
                            SELECT a.*, sum(CASE WHEN a.gone IS NULL THEN pg_column_size(a.args) ELSE 0 END) OVER w AS stored, row_number() OVER w AS first, count(*) FILTER (WHERE a.gone IS NULL) OVER w AS jobs FROM ahead a
                            WINDOW w AS (ORDER BY a.xid, a.id ROWS UNBOUNDED PRECEDING)) AS t
                        WHERE (t.stored <= v_bytes OR t.first = 1) AND t.jobs <= v_most
                        WINDOW w AS (ORDER BY t.xid, t.id ROWS UNBOUNDED PRECEDING)) AS s
                    WHERE s.bytes <= v_bytes OR s.nth = 1 ORDER BY s.xid, s.id
                ), last AS (
                    SELECT b.xid, b.id FROM batch b -- counted once, not for each row
                    WHERE (SELECT count(*) FROM ahead) = v_ahead OR (SELECT count(*) FROM batch) < (SELECT count(*) FROM ahead) ORDER BY b.xid DESC, b.id DESC LIMIT 1
                ), gone AS MATERIALIZED (
                    -- By the primary key: + 0 hides the index of all that the lane has.
                    DELETE FROM {schema}.cancelled_in_log s WHERE s.lane_id + 0 = v_lane AND s.job_id = ANY (SELECT b.id FROM batch b) RETURNING s.job_id
                ), appended AS (
                    INSERT INTO {schema}.claim (seq, start_xid, start_id, end_xid, end_id, worker_call, lane_id, token, worker_id,
                                                job_count, segment, from_snapshot, to_snapshot, event_pos, event_late)
                    SELECT v_seq, v_xid, v_id, (SELECT l.xid FROM last l), (SELECT l.id FROM last l),
                           p_call, v_lane,
                           (random() * 2147483647)::integer, p_worker, n, (SELECT g.segment FROM {schema}.ring g), v_from, v_to,
                           CASE WHEN v_late THEN {schema}.event_position() ELSE pg_current_xact_id() END, CASE WHEN v_late THEN {schema}.event_late() END
                    FROM (SELECT count(*) AS n FROM batch) AS counted WHERE n > 0
                    RETURNING ARRAY[lane_id, seq, token, job_count, i, v_priority] AS head
                ), settled AS (
                    INSERT INTO {schema}.settlement (seq, lane_id, worker_id, job_count, segment, completed, low_id, high_id)
                    SELECT v_seq, v_lane, p_worker, s.jobs, (SELECT r.segment FROM {schema}.ring r), false, s.id, s.id FROM (
                        SELECT 1 AS jobs, g.job_id AS id FROM gone g WHERE (SELECT count(*) FROM gone) < (SELECT count(*) FROM batch)
                        UNION ALL -- where there was nothing else one row tells of all
                        SELECT count(*), NULL FROM gone g HAVING count(*) > 0 AND count(*) = (SELECT count(*) FROM batch)) AS s)
                SELECT a.head, NULL::xid8, NULL::bigint, NULL::smallint, NULL::smallint, NULL::smallint,
                       v_began, NULL::text, NULL::json, NULL::text FROM appended a
                UNION ALL
                SELECT NULL::bigint[], b.xid, b.id, b.attempt, nullif(b.max_attempts, 20), nullif(b.crash_count, 0), b.enqueued_at, b.kind, b.args, b.attributes
                FROM batch b WHERE b.id NOT IN (SELECT g.job_id FROM gone g); -- hashed; an anti-join would be a nested loop
                GET DIAGNOSTICS v_got = ROW_COUNT;
                IF v_cancelled THEN
                    v_steps := v_steps + 1;
                    v_until := coalesce(v_until, clock_timestamp() + interval '10 ms'); -- from here on: before this the statement may have been planned
                END IF;
                IF v_got > 1 THEN -- enough of this queue
                    v_left := 0;
                    v_more := true;
                    EXIT;
                END IF;
            END IF;
            -- Nothing found: move the cursor on when pass 2 must start behind a part-consumed difference that
            -- turned out to be at its end, or when finding out was slow (a rolled-back bulk insert lies there),
            -- so that no claim walks it again.
            IF v_got = 0 AND (v_xid IS NOT NULL OR clock_timestamp() - v_began > '2 ms') THEN
                INSERT INTO {schema}.claim (seq, start_xid, start_id, worker_call, lane_id, token, worker_id, job_count, segment,
                                            from_snapshot, to_snapshot)
                VALUES (v_seq, v_xid, v_id, p_call, v_lane, 0, p_worker, 0, {schema}.current_segment(), v_from, v_to);
            END IF;
            EXIT WHEN v_xid IS NULL AND (v_got = 0 OR NOT v_cancelled);
            v_more := v_more OR pass = 100;
        END LOOP;
    END LOOP;
    v_others := v_others OR (v_busy AND v_left > 0);
    IF v_more OR v_others THEN
        RETURN QUERY SELECT ARRAY[0, CASE WHEN v_more OR v_locked >= 200 OR EXISTS (
                SELECT 1 FROM unnest(v_taken) AS t CROSS JOIN LATERAL (
                    SELECT k.claimed_at FROM {schema}.claim k WHERE k.lane_id = t ORDER BY k.seq DESC LIMIT 1) AS k
                WHERE k.claimed_at BETWEEN clock_timestamp() - interval '100 ms' AND clock_timestamp()) THEN 0 ELSE 1 END, 0, 0, 0, 0]::bigint[], NULL::xid8, NULL::bigint, NULL::smallint, NULL::smallint, NULL::smallint,
                            NULL::timestamptz, NULL::text, NULL::json, NULL::text;
    END IF;
END $$;

-- lanes_with_work(...): of these lanes (ids, priorities, index of their queue, best first) those that have work,
-- by one look at all. A lane of jobs that have waited for 10 s while better lanes were served also goes before
-- its turn, for a sixteenth of what its queue may hand out (shares); one lane of each queue, that which has waited
-- longest. So strict priority starves nobody, and costs the better lanes little. Since a time to come: the clock was set back, and nobody knows how long it has waited.
-- A lane counts as one with work when finding out took over 2 ms (a rolled-back bulk insert lies there), so that
-- its claim moves the cursor on.
-- Cost: 8 us a lane. Never steps over uncommitted rows.
CREATE OR REPLACE FUNCTION {schema}.lanes_with_work(
    p_ids integer[], p_priorities smallint[], p_queues bigint[], p_limits integer[],
    OUT lanes integer[], OUT priorities smallint[], OUT queues bigint[], OUT shares integer[])
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET enable_material = off SET max_parallel_workers_per_gather = 0
AS $$
DECLARE
    v_now pg_snapshot := pg_current_snapshot();
    v_lo  xid8[];
    v_hi  xid8[];
BEGIN
    SELECT d.lo, d.hi INTO v_lo, v_hi FROM {schema}.delta('4:4:', v_now) d;
    WITH looked AS MATERIALIZED (
        SELECT u.id, u.priority, u.queue, u.nth,
               CASE WHEN c.end_xid IS NOT NULL THEN c.claimed_at ELSE greatest(c.claimed_at, j.enqueued_at) END AS since,
               CASE WHEN c.end_xid IS NOT NULL OR j.enqueued_at IS NOT NULL THEN true
                    WHEN pg_snapshot_xmin(c.to_snapshot) <> pg_snapshot_xmax(c.to_snapshot) AND EXISTS (
                        SELECT 1 FROM pg_snapshot_xip(c.to_snapshot) AS x
                        CROSS JOIN LATERAL (SELECT 1 FROM {schema}.job o WHERE o.lane_id = u.id AND o.xid = x LIMIT 1) AS late
                        WHERE pg_visible_in_snapshot(x, v_now)) THEN true
                    WHEN (SELECT true FROM {schema}.no_handler h WHERE h.lane_id = u.id ORDER BY h.lane_id DESC, h.kind DESC, h.noted DESC LIMIT 1)
                        AND {schema}.waits_for_handler(u.id, '{}') THEN true
                    WHEN u.id < 0 AND EXISTS (SELECT 1 FROM {schema}.waiting h WHERE h.lane_id = u.id AND h.state = 'keyed') THEN true
                    ELSE clock_timestamp() - began.at > '2 ms' END AS work
        FROM unnest(p_ids, p_priorities, p_queues) WITH ORDINALITY AS u(id, priority, queue, nth)
        CROSS JOIN LATERAL (SELECT clock_timestamp() AS at OFFSET u.nth * 0) AS began
        LEFT JOIN LATERAL (
            SELECT k.claimed_at, k.end_xid, k.to_snapshot
            FROM {schema}.claim k WHERE k.lane_id = u.id ORDER BY k.seq DESC LIMIT 1) AS c ON true
        LEFT JOIN LATERAL (
            SELECT f.enqueued_at FROM unnest(v_lo, v_hi) AS r(lo, hi)
            CROSS JOIN LATERAL (
                SELECT o.enqueued_at FROM {schema}.job o
                WHERE o.lane_id = u.id AND o.xid >= greatest(r.lo, pg_snapshot_xmax(c.to_snapshot)) AND o.xid <= r.hi
                ORDER BY o.xid, o.id LIMIT 1) AS f
            WHERE c.to_snapshot IS NULL OR r.hi >= pg_snapshot_xmax(c.to_snapshot) LIMIT 1) AS j ON c.end_xid IS NULL
    ), working AS (
        SELECT l.*, row_number() OVER (PARTITION BY l.queue ORDER BY l.nth) AS place FROM looked l WHERE l.work
    ), starving AS (
        SELECT DISTINCT ON (w.queue) w.* FROM working w
        WHERE w.place > 1 AND w.since NOT BETWEEN clock_timestamp() - interval '10 seconds' AND clock_timestamp() ORDER BY w.queue, w.since
    )
    SELECT array_agg(t.id ORDER BY t.queue, t.share, t.nth), array_agg(t.priority ORDER BY t.queue, t.share, t.nth),
           array_agg(t.queue ORDER BY t.queue, t.share, t.nth), array_agg(t.share ORDER BY t.queue, t.share, t.nth)
        INTO lanes, priorities, queues, shares
        FROM (SELECT s.id, s.priority, s.queue, s.nth, greatest(p_limits[s.queue] / 16, 1) AS share FROM starving s
              UNION ALL
              SELECT w.id, w.priority, w.queue, w.nth, NULL FROM working w) AS t;
END $$;
