-- What happened to jobs, page by page: see docs/design/events.md.
--
-- A batch is what is visible in one snapshot (to) and not in the one before (from). First the jobs that were enqueued, lane by lane, then
-- what became of jobs, by (pos, n), which is causal. Nothing is left out whenever it is committed, nothing comes twice: a transaction is
-- visible in one of two snapshots, or not, for good.

-- claim_jobs_after(lane, seq, xid, id, most): as claim_jobs, at most so many behind this position (NULL: from the first).
CREATE OR REPLACE FUNCTION {schema}.claim_jobs_after(p_lane integer, p_seq bigint, p_xid xid8, p_id bigint, p_most integer)
    RETURNS TABLE (xid xid8, id bigint, kind text, attempt smallint) LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET enable_material = off
AS $$
#variable_conflict use_column
DECLARE
    c record;
    v_lo xid8[]; v_lo_id bigint[]; v_hi xid8[];
BEGIN
    SELECT * INTO c FROM {schema}.claim k WHERE k.lane_id = p_lane AND k.seq = p_seq;
    IF NOT FOUND OR c.job_count = 0 THEN RETURN; END IF;
    IF c.direct THEN
        v_lo := ARRAY[({direct} + p_seq)::text::xid8];
        v_lo_id := ARRAY[coalesce(p_id, 0)];
        v_hi := v_lo;
        c.end_xid := NULL;
        c.end_id := NULL;
    ELSE
        IF p_xid IS NOT NULL THEN
            c.start_xid := p_xid;
            c.start_id := p_id;
        END IF;
        SELECT d.lo, d.hi INTO v_lo, v_hi FROM {schema}.delta(c.from_snapshot, c.to_snapshot) d;
        SELECT a.lo, a.lo_id, a.hi INTO v_lo, v_lo_id, v_hi FROM {schema}.after(v_lo, v_hi, c.start_xid, c.start_id) a;
    END IF;
    RETURN QUERY
        SELECT j.xid, j.id, j.kind, j.attempt FROM unnest(v_lo, v_lo_id, v_hi) AS r(lo, lo_id, hi)
        CROSS JOIN LATERAL (
            SELECT j.xid, j.id, j.kind, j.attempt FROM {schema}.job j
            WHERE j.lane_id = p_lane AND (j.xid, j.id) > (r.lo, r.lo_id) AND j.xid <= r.hi
              AND (j.xid, j.id) <= (coalesce(c.end_xid, '18446744073709551615'), coalesce(c.end_id, 9223372036854775807))
            ORDER BY j.xid, j.id LIMIT p_most) AS j
        LIMIT p_most;
END $$;

-- changes(from, to, pos, n, most, limit): the rows of claim, settlement and event that are new between the two snapshots, from (pos, n) on: at most
-- `most`, and none behind those that together have `limit` jobs. cut: there are more.
CREATE OR REPLACE FUNCTION {schema}.changes(p_from pg_snapshot, p_to pg_snapshot, p_pos xid8, p_n bigint, p_most integer, p_limit integer)
    RETURNS TABLE (source integer, pos xid8, n bigint, xid xid8, lane_id integer, seq bigint, worker_id integer, at timestamptz, jobs integer,
                   low bigint, high bigint, job_id bigint, attempt smallint, event text, kind text, reason text, cut boolean)
    LANGUAGE plpgsql STABLE ROWS 100
    SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_material = off
    SET enable_incremental_sort = off
AS $$
#variable_conflict use_column
DECLARE
    v_lo   xid8[];
    v_hi   xid8[];
    v_late xid8[] := ARRAY(SELECT x FROM pg_snapshot_xip(p_from) AS x WHERE pg_visible_in_snapshot(x, p_to));
    v_max  xid8 := pg_snapshot_xmax(p_from);
BEGIN
    SELECT d.lo, d.hi INTO v_lo, v_hi FROM {schema}.delta(p_from, p_to) d WHERE d.hi <> '{}';
    RETURN QUERY
    WITH start AS MATERIALIZED (
        SELECT CASE WHEN p_pos > r.lo THEN p_pos ELSE r.lo END AS lo, CASE WHEN p_pos >= r.lo THEN p_n ELSE 1 END AS n, r.hi
        FROM unnest(v_lo, v_hi) WITH ORDINALITY AS r(lo, hi, nth) WHERE r.hi >= p_pos ORDER BY r.nth
    ), claims AS (
        SELECT k.* FROM start r CROSS JOIN LATERAL (
            SELECT k.* FROM {schema}.claim k WHERE (k.event_pos, k.event_n) >= (r.lo, r.n) AND k.event_pos <= r.hi
              AND pg_visible_in_snapshot(k.event_xid, p_to) AND NOT pg_visible_in_snapshot(k.event_xid, p_from) ORDER BY k.event_pos, k.event_n LIMIT p_most) AS k
        LIMIT p_most
    ), late_claims AS (
        SELECT k.* FROM {schema}.claim k WHERE k.event_xid = ANY (v_late) AND k.event_pos <> k.event_xid AND k.event_pos < v_max AND k.event_pos <> ALL (v_late)
          AND (k.event_pos, k.event_n) >= (p_pos, p_n) ORDER BY k.event_pos, k.event_n LIMIT p_most
    ), settlements AS (
        SELECT s.* FROM start r CROSS JOIN LATERAL (
            SELECT s.* FROM {schema}.settlement s WHERE (s.event_pos, s.event_n) >= (r.lo, r.n) AND s.event_pos <= r.hi
              AND pg_visible_in_snapshot(s.event_xid, p_to) AND NOT pg_visible_in_snapshot(s.event_xid, p_from) ORDER BY s.event_pos, s.event_n LIMIT p_most) AS s
        LIMIT p_most
    ), late_settlements AS (
        SELECT s.* FROM {schema}.settlement s WHERE s.event_xid = ANY (v_late) AND s.event_pos <> s.event_xid AND s.event_pos < v_max AND s.event_pos <> ALL (v_late)
          AND (s.event_pos, s.event_n) >= (p_pos, p_n) ORDER BY s.event_pos, s.event_n LIMIT p_most
    ), events AS (
        SELECT e.* FROM start r CROSS JOIN LATERAL (
            SELECT e.* FROM {schema}.event e WHERE (e.event_pos, e.event_n) >= (r.lo, r.n) AND e.event_pos <= r.hi
              AND pg_visible_in_snapshot(e.event_xid, p_to) AND NOT pg_visible_in_snapshot(e.event_xid, p_from) ORDER BY e.event_pos, e.event_n LIMIT p_most) AS e
        LIMIT p_most
    ), late_events AS (
        SELECT e.* FROM {schema}.event e WHERE e.event_xid = ANY (v_late) AND e.event_pos <> e.event_xid AND e.event_pos < v_max AND e.event_pos <> ALL (v_late)
          AND (e.event_pos, e.event_n) >= (p_pos, p_n) ORDER BY e.event_pos, e.event_n LIMIT p_most
    ), found AS MATERIALIZED (
        SELECT f.*, sum(greatest(f.jobs, 1)) OVER (ORDER BY f.pos, f.n ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM (
            SELECT 1 AS source, c.event_pos AS pos, c.event_n AS n, c.event_xid AS xid, c.lane_id, c.seq, c.worker_id, c.claimed_at AS at, c.job_count AS jobs,
                   NULL::bigint AS low, NULL::bigint AS high, NULL::bigint AS job_id, NULL::smallint AS attempt,
                   NULL::text AS event, NULL::text AS kind, NULL::text AS reason
                FROM (SELECT * FROM claims UNION ALL SELECT * FROM late_claims) AS c
            UNION ALL
            SELECT CASE WHEN s.completed THEN 2 ELSE 0 END, s.event_pos, s.event_n, s.event_xid, s.lane_id, s.seq, s.worker_id, s.settled_at, s.job_count,
                   s.low_id, s.high_id, NULL, NULL, NULL, NULL, NULL
                FROM (SELECT * FROM settlements UNION ALL SELECT * FROM late_settlements) AS s
            UNION ALL
            SELECT 3, e.event_pos, e.event_n, e.event_xid, e.lane_id, NULL, e.worker_id, e.at, 1, NULL, NULL, e.job_id, e.attempt, e.event, e.kind, e.reason
                FROM (SELECT * FROM events UNION ALL SELECT * FROM late_events) AS e
            ORDER BY 2, 3 LIMIT p_most) AS f
    ), counted AS (SELECT count(*) >= p_most OR count(*) FILTER (WHERE f.before >= p_limit) > 0 AS cut FROM found f)
    SELECT f.source, f.pos, f.n, f.xid, f.lane_id, f.seq, f.worker_id, f.at, f.jobs, f.low, f.high, f.job_id, f.attempt, f.event, f.kind, f.reason,
           c.cut
    FROM found f, counted c WHERE f.before IS NULL OR f.before < p_limit ORDER BY f.pos, f.n;
END $$;

-- happened(from, to, pos, n, xid, id, limit, ...): what became of jobs, in order, behind this position; xid and id are of a job within (pos, n). At most about
-- `limit` rows of kind 'event', then one row with where the page ended. found: of a claim, how many of its `jobs` jobs there are up to this one.
-- hidden: this is nothing that happened, such as a job that the claim stepped over.
CREATE OR REPLACE FUNCTION {schema}.happened(
    p_from pg_snapshot, p_to pg_snapshot, p_pos xid8, p_n bigint, p_xid xid8, p_id bigint, p_limit integer, p_queues text[], p_types text[])
    RETURNS TABLE (is_end boolean, pos xid8, n bigint, job_xid xid8, job_id bigint, event text, at timestamptz, queue text, kind text,
                   attempt integer, worker_id integer, reason text, jobs integer, hidden boolean, lost boolean, cut boolean)
    LANGUAGE plpgsql STABLE ROWS 100
    SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    v_started   boolean := p_types IS NULL OR 'started' = ANY (p_types);
    v_completed boolean := p_types IS NULL OR 'completed' = ANY (p_types);
BEGIN
    RETURN QUERY
    WITH taken AS MATERIALIZED (
        SELECT u.*, l.queue, (p_queues IS NULL OR l.queue = ANY (p_queues)) AS wanted
        FROM {schema}.changes(p_from, p_to, p_pos, p_n + (p_xid IS NULL)::integer, p_limit, p_limit) u
        LEFT JOIN {schema}.lane l ON l.id = u.lane_id
    ), settled AS MATERIALIZED (
        SELECT t.*, EXISTS (SELECT 1 FROM {schema}.settlement s WHERE s.lane_id = t.lane_id AND s.seq = t.seq
                            AND (t.high IS NULL AND s.high_id IS NOT NULL OR s.low_id = s.high_id AND s.high_id BETWEEN t.low AND t.high)) AS among_others
        FROM taken t WHERE t.source = 2 AND t.wanted AND v_completed
    ), members AS MATERIALIZED (
        SELECT c.lane_id, c.seq, j.xid, j.id, j.kind, j.attempt FROM (SELECT DISTINCT s.lane_id, s.seq FROM settled s) AS c
        CROSS JOIN LATERAL {schema}.claim_jobs_after(c.lane_id, c.seq, NULL, NULL, 2147483647) j
    ), whole AS MATERIALIZED (
        SELECT s.lane_id, s.seq FROM (SELECT DISTINCT s.lane_id, s.seq FROM settled s) AS s
        WHERE NOT EXISTS (SELECT 1 FROM {schema}.claim k WHERE k.lane_id = s.lane_id AND k.seq = s.seq AND k.job_count > 0
                          AND k.job_count = (SELECT count(*) FROM members m WHERE m.lane_id = s.lane_id AND m.seq = s.seq))
    ), started AS (
        SELECT t.pos, t.n, j.xid AS job_xid, j.id AS job_id, 'started'::text AS event, t.at, t.queue, j.kind, j.attempt + 1 AS attempt,
               t.worker_id, NULL::text AS reason, t.jobs,
               j.id IS NULL OR EXISTS (SELECT 1 FROM {schema}.settlement s WHERE s.lane_id = t.lane_id AND s.seq = t.seq AND s.high_id = j.id
                                       AND s.low_id = j.id AND NOT s.completed AND s.event_xid = t.xid) AS hidden
        FROM taken t
        LEFT JOIN LATERAL {schema}.claim_jobs_after(
            t.lane_id, t.seq, CASE WHEN (t.pos, t.n) = (p_pos, p_n) THEN p_xid END, CASE WHEN (t.pos, t.n) = (p_pos, p_n) THEN p_id END, p_limit) j ON true
        WHERE t.source = 1 AND t.jobs > 0 AND t.wanted AND v_started
    ), completed AS (
        SELECT s.*, m.xid AS member_xid, m.id AS member, m.kind AS member_kind, m.attempt AS member_attempt
        FROM settled s JOIN members m ON m.lane_id = s.lane_id AND m.seq = s.seq AND m.id = s.low WHERE s.low = s.high
        UNION ALL
        SELECT s.*, m.xid, m.id, m.kind, m.attempt
        FROM settled s JOIN members m ON m.lane_id = s.lane_id AND m.seq = s.seq
        WHERE (s.high IS NULL OR s.low < s.high AND m.id BETWEEN s.low AND s.high)
          AND NOT (s.among_others AND (
              EXISTS (SELECT 1 FROM {schema}.settlement o WHERE o.lane_id = s.lane_id AND o.seq = s.seq AND o.high_id = m.id AND o.low_id = m.id)
              OR s.high IS NULL AND EXISTS (
                  SELECT 1 FROM (SELECT o.low_id FROM {schema}.settlement o WHERE o.lane_id = s.lane_id AND o.seq = s.seq AND o.high_id >= m.id
                                 AND o.low_id < o.high_id ORDER BY o.high_id LIMIT 1) AS w WHERE w.low_id <= m.id)))
    ), page AS (
        SELECT * FROM (
            SELECT * FROM started
            UNION ALL
            SELECT c.pos, c.n, c.member_xid, c.member, 'completed', c.at, c.queue, c.member_kind, c.member_attempt + 1, c.worker_id, NULL, NULL, false
                FROM completed c WHERE p_xid IS NULL OR (c.pos, c.n, c.member_xid, c.member) > (p_pos, p_n, p_xid, p_id)
            UNION ALL
            SELECT t.pos, t.n, NULL, t.job_id, t.event, t.at, t.queue, t.kind, t.attempt, t.worker_id, t.reason, NULL, false
                FROM taken t WHERE t.source = 3 AND t.wanted AND (p_types IS NULL OR t.event = ANY (p_types))) AS x
        -- One more, because of a claim all of whose jobs were told of there is a row without a job, first.
        ORDER BY x.pos, x.n, x.job_xid, x.job_id LIMIT p_limit + 1)
    SELECT * FROM (
        SELECT false, p.*, false, false FROM page p
        UNION ALL
        SELECT true, l.pos, l.n, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, EXISTS (SELECT 1 FROM whole), coalesce(l.cut, false)
            FROM (SELECT 1) AS one LEFT JOIN (SELECT t.pos, t.n, t.cut FROM taken t ORDER BY t.pos DESC, t.n DESC LIMIT 1) AS l ON true
    ) AS r(is_end, pos, n, job_xid, job_id, event, at, queue, kind, attempt, worker_id, reason, jobs, hidden, lost, cut)
    ORDER BY r.is_end, r.pos, r.n, r.job_xid, r.job_id;
END $$;

-- event_cursor(cursor): the parts of a cursor that events gave; refuses what is none, and what does not belong to this log any more.
CREATE OR REPLACE FUNCTION {schema}.event_cursor(
    p_cursor text, OUT since pg_snapshot, OUT until pg_snapshot, OUT phase text, OUT parts text[])
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_parts text[] := string_to_array(p_cursor, '/');
    v_log   {schema}.event_log := (SELECT e FROM {schema}.event_log e);
    v_line  text := {schema}.event_timeline();
BEGIN
    phase := 'n';
    IF p_cursor IN ('start', 'now') THEN
        since := CASE p_cursor WHEN 'start' THEN v_log.kept_from ELSE pg_current_snapshot() END;
        RETURN;
    END IF;
    BEGIN
        IF v_parts[1] IS DISTINCT FROM '1' OR cardinality(v_parts) NOT IN (4, 9, 11) THEN RAISE data_exception; END IF;
        since := v_parts[4]::pg_snapshot;
        IF cardinality(v_parts) > 4 THEN
            until := v_parts[5]::pg_snapshot;
            phase := v_parts[6];
            parts := v_parts[7:];
            IF phase || cardinality(parts) NOT IN ('e3', 'w5') THEN RAISE data_exception; END IF;
            PERFORM nullif(p, '-')::numeric FROM unnest(parts) AS p;
        END IF;
    EXCEPTION WHEN data_exception THEN
        RAISE 'events cannot be read from %; pass start, now, or a cursor as events gave it', coalesce(quote_literal(left(p_cursor, 80)), 'NULL')
            USING ERRCODE = 'WL003';
    END;
    IF v_parts[2] <> v_log.log THEN
        RAISE 'the cursor is of another log: the database was restored into another cluster since; read on from start or from now'
            USING ERRCODE = 'WL008';
    END IF;
    IF v_parts[3] <> v_line OR pg_snapshot_xmax(since) > pg_snapshot_xmax(pg_current_snapshot())
       OR pg_snapshot_xmax(until) > pg_snapshot_xmax(pg_current_snapshot()) THEN
        RAISE 'the cursor is of another timeline of the database (a failover or a recovery to a point in time): what was committed last there may be missing here; read on from start or from now'
            USING ERRCODE = 'WL008';
    END IF;
END $$;

-- without_ended(from, to): the snapshot `from`, but that transactions that were open then, and had ended in `to`, count as seen: they wrote
-- nothing that happened. So what was open when something happened last is no reason to think that a reader missed something. The ids below
-- xmax are those of a batch that was begun before, so a crash gives none of them to others.
CREATE OR REPLACE FUNCTION {schema}.without_ended(p_from pg_snapshot, p_to pg_snapshot) RETURNS pg_snapshot
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_open bigint[] := ARRAY(
        SELECT x::text::bigint FROM pg_snapshot_xip(p_from) AS x WHERE NOT pg_visible_in_snapshot(x, p_to) ORDER BY 1);
BEGIN
    RETURN (coalesce(v_open[1]::text, pg_snapshot_xmax(p_from)::text) || ':' || pg_snapshot_xmax(p_from) || ':'
            || array_to_string(v_open, ','))::pg_snapshot;
END $$;

-- event_timeline(): of the server, as its files are named.
CREATE OR REPLACE FUNCTION {schema}.event_timeline() RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$ SELECT left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) $$;

-- check_event_filter(max, types): refuses what is beyond the limits, or unknown.
CREATE OR REPLACE FUNCTION {schema}.check_event_filter(p_max integer, p_types text[]) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_known   text[] := '{enqueued,started,completed,failed,retried,snoozed,cancelled,discarded,rescued,returned,deleted}';
    v_unknown text;
BEGIN
    IF p_max IS NULL OR p_max NOT BETWEEN 1 AND 100000 THEN
        RAISE 'a page has 1 to 100000 events, got %', coalesce(p_max::text, 'NULL') USING ERRCODE = 'WL003';
    END IF;
    SELECT t INTO v_unknown FROM unnest(p_types) AS t WHERE t IS NULL OR t <> ALL (v_known) LIMIT 1;
    IF FOUND THEN
        RAISE 'unknown event %; known are %', coalesce(quote_literal(v_unknown), 'NULL'), array_to_string(v_known, ', ') USING ERRCODE = 'WL003';
    END IF;
END $$;

-- events(cursor, max, queues, kinds, types): the next page of at most `max` events behind the cursor ('start': all that are kept; 'now': from here on), and one
-- row more, without an event: where to go on, and whether there is more at once. Each row has the cursor behind it; keep the last. Of the
-- queues, kinds and types only, where given.
-- Refuses (SQLSTATE WL008) a cursor behind which something was removed: never silently leaves anything out.
-- What a cursor says was seen is on disk: a crash would give the ids of transactions that it lost to others. So a page that begins a batch writes one small
-- record to the server's log, and its own commit waits for that. READ COMMITTED, in a transaction of its own.
-- Invariant: the snapshot of a batch is taken under the rotate lock, and what is kept is looked at after everything was read.
-- Cost: a probe for each lane that has nothing new, 3 to 6 us for an event; never steps over more than it gives but for what a filter leaves out.
CREATE OR REPLACE FUNCTION {schema}.events(
    from_cursor text, max integer DEFAULT 1000, queues text[] DEFAULT NULL, kinds text[] DEFAULT NULL, types text[] DEFAULT NULL)
    RETURNS TABLE (cursor text, job_id bigint, event text, at timestamptz, queue text, kind text, attempt integer, worker_id integer,
                   reason text, more boolean)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET enable_material = off SET max_parallel_workers_per_gather = 0
AS $$
#variable_conflict use_column
DECLARE
    p_max alias for $2; p_queues alias for $3; p_kinds alias for $4; p_types alias for $5;
    c       record;
    r       record;
    v_begun boolean := false; -- this call begins a batch
    v_head  text;             -- what cursors of this log begin with
    v_left  integer := p_max;
    v_seen  bigint := 0;      -- rows that were looked at
    v_lo    xid8[];
    v_hi    xid8[];
    v_lane  integer := -2147483648;
    v_xid   xid8 := '0';
    v_id    bigint := 0;
    v_pos   xid8 := '0';
    v_n     bigint := 0;
    v_job_xid xid8;
    v_job   bigint;
    v_found bigint := 0;
    v_jobs  bigint;
    v_lanes record;
    v_at    text;             -- where the page ended
    v_same  text;             -- where it began
    v_lost  boolean := false;
BEGIN
    PERFORM {schema}.read_committed('events'), {schema}.check_event_filter(p_max, p_types);
    PERFORM pg_advisory_xact_lock_shared(hashtext({name} || '.rotate'), 0);
    IF {schema}.home_state() = 'moved' THEN
        RAISE 'the database was moved here from another cluster and is not in order yet; start a worker or run `windlass migrate`' USING ERRCODE = 'WL008';
    END IF;
    SELECT * INTO c FROM {schema}.event_cursor(from_cursor);
    v_head := '1/' || (SELECT e.log FROM {schema}.event_log e) || '/' || {schema}.event_timeline() || '/';
    v_at := v_head || c.since;
    v_same := v_at;
    IF c.phase = 'n' THEN
        v_begun := true;
        c.until := pg_current_snapshot();
        c.phase := 'e';
    ELSIF c.phase = 'e' THEN
        v_lane := c.parts[1]; v_xid := c.parts[2]; v_id := c.parts[3];
    ELSE
        v_pos := c.parts[1]; v_n := c.parts[2]; v_job_xid := nullif(c.parts[3], '-'); v_job := nullif(c.parts[4], '-'); v_found := c.parts[5];
    END IF;
    v_head := v_head || c.since || '/' || c.until || '/';

    IF c.phase = 'e' AND (p_types IS NULL OR 'enqueued' = ANY (p_types)) THEN
        SELECT d.lo, d.hi INTO v_lo, v_hi FROM {schema}.delta(c.since, c.until) d;
        SELECT count(*) AS n, coalesce(pg_catalog.max(l.id), v_lane) AS last INTO v_lanes FROM (
            SELECT l.id FROM {schema}.lane l WHERE l.id >= v_lane AND (p_queues IS NULL OR l.queue = ANY (p_queues)) ORDER BY l.id LIMIT 20000) AS l
            WHERE v_hi <> '{}';
        FOR r IN
            SELECT l.id AS lane, l.queue, j.* FROM (
                SELECT l.id, l.queue FROM {schema}.lane l
                WHERE l.id BETWEEN v_lane AND v_lanes.last AND (p_queues IS NULL OR l.queue = ANY (p_queues)) ORDER BY l.id) AS l
            CROSS JOIN LATERAL (
                SELECT j.* FROM unnest(v_lo, v_hi) AS s(lo, hi)
                CROSS JOIN LATERAL (
                    SELECT j.xid, j.id, j.enqueued_at, j.kind, j.moved FROM {schema}.job j
                    WHERE j.lane_id = l.id AND j.xid <= s.hi
                      AND (j.xid, j.id) > (CASE WHEN l.id = v_lane AND v_xid >= s.lo THEN v_xid ELSE s.lo END,
                                           CASE WHEN l.id = v_lane AND v_xid >= s.lo THEN v_id ELSE 0 END)
                    ORDER BY j.xid, j.id LIMIT p_max) AS j
                LIMIT p_max) AS j
            LIMIT p_max
        LOOP
            v_seen := v_seen + 1;
            v_at := v_head || 'e/' || r.lane || '/' || r.xid || '/' || r.id;
            CONTINUE WHEN r.moved OR r.kind <> ALL (p_kinds);
            v_left := v_left - 1;
            cursor := v_at; job_id := r.id; event := 'enqueued'; at := r.enqueued_at; queue := r.queue; kind := r.kind; attempt := 0;
            RETURN NEXT;
        END LOOP;
        IF v_seen < p_max AND v_lanes.n = 20000 THEN
            v_at := v_head || 'e/' || (v_lanes.last + 1) || '/0/0';
            more := true;
        ELSIF v_seen >= p_max THEN
            more := true;
        ELSE
            c.phase := 'w';
        END IF;
    ELSE
        c.phase := 'w';
    END IF;

    IF c.phase = 'w' AND v_left > 0 THEN
        v_lane := 0; -- rows of this part
        FOR r IN SELECT * FROM {schema}.happened(c.since, c.until, v_pos, v_n, v_job_xid, v_job, v_left, p_queues, p_types) LOOP
            EXIT WHEN r.is_end;
            CONTINUE WHEN v_lane >= v_left;
            IF (r.pos, r.n) IS DISTINCT FROM (v_pos, v_n) THEN
                v_lost := v_lost OR coalesce(v_found <> v_jobs, false); -- of the claim before
                v_found := 0;
            END IF;
            v_seen := v_seen + 1;
            v_pos := r.pos;
            v_n := r.n;
            v_jobs := r.jobs;
            v_found := v_found + (r.jobs IS NOT NULL AND r.job_id IS NOT NULL)::integer;
            CONTINUE WHEN r.job_id IS NULL;
            v_lane := v_lane + 1;
            v_at := v_head || 'w/' || r.pos || '/' || r.n || '/' || coalesce(r.job_xid::text, '-') || '/'
                || CASE WHEN r.job_xid IS NULL THEN '-' ELSE r.job_id::text END || '/' || v_found;
            CONTINUE WHEN r.hidden OR r.kind <> ALL (p_kinds);
            cursor := v_at; job_id := r.job_id; event := r.event; at := r.at; queue := coalesce(r.queue, ''); kind := r.kind;
            attempt := r.attempt; worker_id := r.worker_id; reason := r.reason;
            RETURN NEXT;
        END LOOP;
        v_lost := v_lost OR r.lost;
        IF v_lane >= v_left THEN
            more := true;
        ELSE
            v_lost := v_lost OR coalesce(v_found <> v_jobs, false);
            IF r.pos IS NOT NULL THEN v_seen := v_seen + 1; END IF;
            more := r.cut OR NOT v_begun;
            IF r.cut THEN
                v_at := v_head || 'w/' || r.pos || '/' || r.n || '/-/-/0';
            ELSIF v_seen = 0 AND v_begun THEN
                v_at := '1/' || split_part(v_head, '/', 2) || '/' || split_part(v_head, '/', 3) || '/' || {schema}.without_ended(c.since, c.until);
                v_same := v_at;
            ELSE
                v_at := '1/' || split_part(v_head, '/', 2) || '/' || split_part(v_head, '/', 3) || '/' || c.until;
            END IF;
        END IF;
    ELSIF c.phase = 'w' THEN
        v_at := v_head || 'w/0/0/-/-/0';
        more := true;
    END IF;

    IF v_lost OR (SELECT d.hi <> '{}' FROM {schema}.event_log e, {schema}.delta(c.since, e.kept_from) d) THEN
        RAISE 'events behind this cursor were removed with jobs past their retention; read on from start, which misses them, or from now, and read in time (retention is %)',
            (SELECT s.retention FROM {schema}.setting s) USING ERRCODE = 'WL008';
    END IF;
    IF v_begun AND (v_at <> v_same OR from_cursor = 'now') THEN
        IF current_setting('synchronous_commit') = 'off' THEN PERFORM set_config('synchronous_commit', 'local', true); END IF;
        PERFORM pg_logical_emit_message(true, 'windlass', '');
    END IF;
    cursor := v_at; job_id := NULL; event := NULL; at := NULL; queue := NULL; kind := NULL; attempt := NULL; worker_id := NULL; reason := NULL;
    more := coalesce(more, false);
    RETURN NEXT;
END $$;
