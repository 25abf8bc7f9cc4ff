-- What happened to jobs, page by page: see docs/design/events.md.
--
-- A batch is what is visible in one snapshot (to) and not in the one before (from). First the jobs that were enqueued, lane by lane, then
-- what became of jobs, by (pos, n), which is causal. Nothing is left out whenever it is committed, nothing comes twice: a transaction is
-- visible in one of two snapshots, or not, for good.

-- events(cursor, max, queues, kinds, types): the next page of at most `max` events behind the cursor ('start': all that are kept; 'now': from here on), and one
-- row more, without an event: where to go on, and whether there is more at once. Each row has the cursor behind it; keep the last. Of the
-- queues, kinds and types only, where given.
-- Refuses (SQLSTATE WL008) a cursor behind which something was removed: never silently leaves anything out. From start what is there is told: of claims that stand in
-- later segments than their jobs some may be gone.
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
    p_max alias for $2; p_queues alias for $3; p_kinds text[] := array_remove($4, NULL); p_types alias for $5; -- no kind is NULL
    c       record;
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
    v_lanes record;
    v_hidden boolean;
    v_given integer := 0;      -- rows of what became of jobs
    v_nth   bigint;            -- the change that a row is of
    v_before bigint;           -- and of the row before
    v_lacks boolean;
    v_lacked boolean := false; -- of the change of the row before jobs have to follow
    v_last  text;
    v_cut   boolean;
    v_gone  boolean;
    v_at    text;             -- where the page ended
    v_same  text;             -- where it began
    v_lost  boolean := false;
    v_start boolean := from_cursor = 'start' OR from_cursor ^@ '2/'; -- what is gone is before all that is kept
BEGIN
    PERFORM {schema}.read_committed('events'), {schema}.check_event_filter(p_max, p_types);
    PERFORM pg_advisory_xact_lock_shared(hashtext({name} || '.rotate'), 0);
    IF {schema}.home_state() = 'moved' THEN
        RAISE 'the database was moved here from another cluster and is not in order yet; start a worker or run `windlass migrate`' USING ERRCODE = 'WL008';
    END IF;
    SELECT * INTO c FROM {schema}.event_cursor(from_cursor);
    v_head := CASE WHEN v_start THEN '2/' ELSE '1/' END || (SELECT e.log FROM {schema}.event_log e) || '/' || {schema}.event_timeline() || '/';
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
        event := 'enqueued';
        attempt := 0;
        FOR cursor, job_id, at, queue, kind, v_hidden IN
            SELECT v_head || 'e/' || l.id || '/' || j.xid || '/' || j.id, j.id, j.enqueued_at, l.queue, j.kind, j.moved FROM (
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
            v_at := cursor;
            CONTINUE WHEN v_hidden OR kind <> ALL (p_kinds);
            v_left := v_left - 1;
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
        FOR cursor, job_id, event, at, queue, kind, attempt, worker_id, reason, v_hidden, v_lacks, v_nth, v_last, v_cut, v_gone IN
            SELECT * FROM {schema}.happened(v_head, c.since, c.until, v_pos, v_n, v_job_xid, v_job, v_found, v_left, p_queues, p_types)
        LOOP
            EXIT WHEN v_given >= v_left;
            v_lost := v_lost OR v_lacked AND v_nth IS DISTINCT FROM v_before;
            v_lacked := v_lacks;
            v_before := v_nth;
            CONTINUE WHEN job_id IS NULL;
            v_given := v_given + 1;
            v_at := cursor;
            CONTINUE WHEN v_hidden OR kind <> ALL (p_kinds);
            RETURN NEXT;
        END LOOP;
        v_lost := v_lost OR v_gone;
        IF v_given >= v_left THEN
            more := true;
        ELSE
            v_lost := v_lost OR v_lacked;
            more := v_cut OR NOT v_begun;
            IF v_cut THEN
                v_at := v_last;
            ELSIF v_seen = 0 AND v_last IS NULL AND v_begun THEN
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

    IF v_lost AND NOT v_start OR (SELECT d.hi <> '{}' FROM {schema}.event_log e, {schema}.delta(c.since, e.kept_from) d) THEN
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
