-- What new claims, settlements and events tell, job by job.

-- claim_jobs_after(lane, seq, xid, id, passed, most): as claim_jobs, at most so many behind this position, up to which there are `passed` (NULL: from the first).
-- Never asks for more than the claim has: a scan does not end at the claim's last id, but with the rows of its transaction.
CREATE OR REPLACE FUNCTION {schema}.claim_jobs_after(p_lane integer, p_seq bigint, p_xid xid8, p_id bigint, p_passed bigint, p_most bigint)
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
    p_most := least(p_most, c.job_count - CASE WHEN p_xid IS NULL THEN 0 ELSE p_passed END);
    IF NOT FOUND OR p_most <= 0 THEN RETURN; END IF;
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

-- rest_is_there(lane, seq, jobs, from): of a claim of so many jobs, whether all are there that were not settled in `from`. Of a claim that is open for longer than
-- jobs are retained the others may be gone: who reads on from there was told of them.
-- Cost: two index probes for each job of the claim. Asked only where some are gone.
CREATE OR REPLACE FUNCTION {schema}.rest_is_there(p_lane integer, p_seq bigint, p_jobs bigint, p_from pg_snapshot) RETURNS boolean
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
BEGIN
    RETURN (
        SELECT count(*) FROM {schema}.claim_jobs_after(p_lane, p_seq, NULL, NULL, 0, 2147483647) j
        WHERE NOT EXISTS (
            SELECT 1 FROM (
                (SELECT o.event_xid FROM {schema}.settlement o WHERE o.lane_id = p_lane AND o.seq = p_seq AND o.high_id IS NULL)
                UNION ALL
                SELECT w.event_xid FROM (
                    SELECT o.event_xid, o.low_id FROM {schema}.settlement o WHERE o.lane_id = p_lane AND o.seq = p_seq AND o.high_id >= j.id
                    ORDER BY o.high_id LIMIT 1) AS w WHERE w.low_id <= j.id) AS o
            WHERE o.event_xid IS NULL OR pg_visible_in_snapshot(o.event_xid, p_from))
    ) >= p_jobs - (
        SELECT coalesce(sum(s.job_count), 0) FROM {schema}.settlement s
        WHERE s.lane_id = p_lane AND s.seq = p_seq AND (s.event_xid IS NULL OR pg_visible_in_snapshot(s.event_xid, p_from)));
END $$;

-- happened(head, from, to, pos, n, xid, id, passed, limit, ...): what became of jobs, in order, behind this position; xid and id are of a job within (pos, n), and
-- `passed` how many of its claim are before, with it. At most `limit` rows and one more, each with its place among the changes and, in all of them alike, where the
-- changes that were looked at ended; without anything one row with nothing but that.
-- cursor: behind this row, beginning with `head`. lacks: jobs of the same change follow, or are gone. hidden: this is nothing that happened, such as a job that the claim stepped over.
-- Cost: as docs/design/benchmarks.md says of events; some probes for each job that was settled by itself.
CREATE OR REPLACE FUNCTION {schema}.happened(
    p_head text, p_from pg_snapshot, p_to pg_snapshot, p_pos xid8, p_n bigint, p_xid xid8, p_id bigint, p_passed bigint, p_limit integer,
    p_queues text[], p_types text[])
    RETURNS TABLE (cursor text, job_id bigint, event text, at timestamptz, queue text, kind text, attempt integer, worker_id integer, reason text,
                   hidden boolean, lacks boolean, nth bigint, last_cursor text, cut boolean, lost boolean)
    LANGUAGE plpgsql STABLE ROWS 100
    SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    -- What can be joined by a hash is: it is all of a page. Said here, since who calls this has switched them off.
    SET enable_seqscan = off SET enable_mergejoin = off SET enable_nestloop = off SET enable_hashjoin = on
AS $$
#variable_conflict use_column
DECLARE
    v_started   boolean := p_types IS NULL OR 'started' = ANY (p_types);
    v_completed boolean := p_types IS NULL OR 'completed' = ANY (p_types);
BEGIN
    RETURN QUERY
    WITH taken AS MATERIALIZED (
        SELECT u.*, p_queues IS NULL OR u.queue = ANY (p_queues) AS wanted
        FROM (SELECT u.*, (SELECT l.queue FROM {schema}.lane l WHERE l.id = u.lane_id) AS queue, row_number() OVER () AS nth, (u.pos, u.n) = (p_pos, p_n) AS goes_on
              FROM {schema}.changes(p_from, p_to, p_pos, p_n + (p_xid IS NULL)::integer, p_limit, p_limit, v_started, v_completed) u) AS u
    ), settled AS MATERIALIZED (
        -- What counts is what was settled in `to`: who completes a job a second time, not seeing the first, tells nothing.
        -- Asked in one condition, each row read all settlements of its claim.
        SELECT t.*, CASE WHEN t.high IS NULL THEN EXISTS (
                   SELECT 1 FROM {schema}.settlement s WHERE s.lane_id = t.lane_id AND s.seq = t.seq AND s.high_id IS NOT NULL
                   AND (s.event_xid IS NULL OR pg_visible_in_snapshot(s.event_xid, p_to)))
               WHEN t.low < t.high THEN EXISTS (
                   SELECT 1 FROM {schema}.settlement s WHERE s.lane_id = t.lane_id AND s.seq = t.seq AND s.high_id BETWEEN t.low AND t.high
                   AND s.low_id = s.high_id AND (s.event_xid IS NULL OR pg_visible_in_snapshot(s.event_xid, p_to)))
               ELSE false END AS among_others
        FROM taken t WHERE t.source = 2 AND t.wanted AND v_completed
    ), in_parts AS MATERIALIZED (
        SELECT s.lane_id, s.seq, bool_or(s.among_others) AS among_others FROM settled s WHERE s.high IS NOT NULL OR s.among_others GROUP BY 1, 2
    ), members AS MATERIALIZED (
        SELECT c.lane_id, c.seq, j.xid, j.id, j.kind, j.attempt
        FROM in_parts c CROSS JOIN LATERAL {schema}.claim_jobs_after(c.lane_id, c.seq, NULL, NULL, 0, 2147483647) j
    ), others AS MATERIALIZED (
        SELECT c.lane_id, c.seq, o.low_id, o.high_id
        FROM in_parts c CROSS JOIN LATERAL (
            SELECT o.low_id, o.high_id FROM {schema}.settlement o WHERE o.lane_id = c.lane_id AND o.seq = c.seq AND o.high_id IS NOT NULL
            AND (o.event_xid IS NULL OR pg_visible_in_snapshot(o.event_xid, p_to)) OFFSET 0) AS o
        WHERE c.among_others
    ), told AS (
        -- Up to which id other settlements reach that begin at this job or before, and those of one job each; and where the last range of this page that begins
        -- there does: no two of a claim overlap. Asked for each job, in each leaf, it was two thirds of the time of a page.
        SELECT * FROM (
            SELECT x.*, max(x.high) OVER before AS others_to, max(x.high) FILTER (WHERE x.high = x.id) OVER before AS singles_to, max(x.range) OVER before AS range_low
            FROM (SELECT m.*, NULL::bigint AS high, NULL::bigint AS range, true AS is_job FROM members m
                  UNION ALL
                  SELECT o.lane_id, o.seq, NULL, o.low_id, NULL, NULL, o.high_id, NULL, false FROM others o
                  UNION ALL
                  SELECT s.lane_id, s.seq, NULL, s.low, NULL, NULL, NULL, s.low, false FROM settled s WHERE s.low < s.high) AS x
            WINDOW before AS (PARTITION BY x.lane_id, x.seq ORDER BY x.id, x.is_job ROWS UNBOUNDED PRECEDING)) AS x
        WHERE x.is_job
    ), counted AS (
        SELECT s.lane_id, s.seq, (SELECT k.job_count FROM {schema}.claim k WHERE k.lane_id = s.lane_id AND k.seq = s.seq AND k.job_count > 0) AS jobs, n.found
        FROM in_parts s LEFT JOIN (SELECT m.lane_id, m.seq, count(*) AS found FROM members m GROUP BY 1, 2) AS n ON n.lane_id = s.lane_id AND n.seq = s.seq
    ), started AS (
        SELECT t.pos, t.n, j.xid AS job_xid, j.id AS job_id, 'started'::text AS event, t.at, t.queue, j.kind, j.attempt + 1 AS attempt,
               t.worker_id, NULL::text AS reason, t.nth, t.jobs, coalesce(j.nth, 0) + CASE WHEN t.goes_on THEN p_passed ELSE 0 END AS found,
               j.id IS NULL OR t.stepped_over_all OR t.stepped_over AND EXISTS (
                   SELECT 1 FROM {schema}.settlement s WHERE s.lane_id = t.lane_id AND s.seq = t.seq AND s.high_id = j.id
                   AND s.low_id = j.id AND NOT s.completed AND s.event_xid = t.xid) AS hidden
        -- Asked for the claim first: asked for each of its jobs, in each leaf, it was half of the time of a page.
        FROM (SELECT t.*, EXISTS (SELECT 1 FROM {schema}.settlement s WHERE s.lane_id = t.lane_id AND s.seq = t.seq
                                  AND NOT s.completed AND s.event_xid = t.xid) AS stepped_over,
                     EXISTS (SELECT 1 FROM {schema}.settlement s WHERE s.lane_id = t.lane_id AND s.seq = t.seq AND s.high_id IS NULL
                             AND NOT s.completed AND s.event_xid = t.xid) AS stepped_over_all
              FROM taken t WHERE t.source = 1 AND t.jobs > 0 AND t.wanted AND v_started OFFSET 0) t
        LEFT JOIN LATERAL {schema}.claim_jobs_after(
            t.lane_id, t.seq, CASE WHEN t.goes_on THEN p_xid END, CASE WHEN t.goes_on THEN p_id END, p_passed, p_limit)
            WITH ORDINALITY AS j(xid, id, kind, attempt, nth) ON true
    ), all_completed AS (
        SELECT s.pos, s.n, j.xid AS job_xid, j.id AS job_id, 'completed'::text AS event, s.at, s.queue, j.kind, j.attempt + 1 AS attempt,
               s.worker_id, NULL::text AS reason, s.nth, s.jobs, coalesce(j.nth, 0) + CASE WHEN s.goes_on THEN p_passed ELSE 0 END AS found,
               j.id IS NULL AS hidden
        FROM settled s
        LEFT JOIN LATERAL {schema}.claim_jobs_after(
            s.lane_id, s.seq, CASE WHEN s.goes_on THEN p_xid END, CASE WHEN s.goes_on THEN p_id END, p_passed, p_limit)
            WITH ORDINALITY AS j(xid, id, kind, attempt, nth) ON true
        WHERE s.high IS NULL AND NOT s.among_others
    ), completed AS (
        SELECT s.*, m.xid AS member_xid, m.id AS member, m.kind AS member_kind, m.attempt AS member_attempt
        FROM settled s JOIN members m ON m.lane_id = s.lane_id AND m.seq = s.seq AND m.id = s.low
        WHERE s.low = s.high AND NOT EXISTS (
            SELECT 1 FROM (
                (SELECT o.event_xid FROM {schema}.settlement o WHERE o.lane_id = s.lane_id AND o.seq = s.seq AND o.high_id IS NULL AND o.completed)
                UNION ALL
                SELECT w.event_xid FROM (
                    SELECT o.event_xid, o.low_id FROM {schema}.settlement o WHERE o.lane_id = s.lane_id AND o.seq = s.seq AND o.high_id >= s.low
                    AND o.low_id < o.high_id AND o.completed ORDER BY o.high_id LIMIT 1) AS w WHERE w.low_id <= s.low) AS o
            WHERE o.event_xid IS NULL OR pg_visible_in_snapshot(o.event_xid, p_from))
        UNION ALL
        SELECT s.*, m.xid, m.id, m.kind, m.attempt
        FROM settled s JOIN told m ON m.lane_id = s.lane_id AND m.seq = s.seq
        WHERE s.high IS NULL AND s.among_others AND (m.others_to >= m.id) IS NOT TRUE
        UNION ALL
        SELECT s.*, m.xid, m.id, m.kind, m.attempt
        FROM settled s JOIN told m ON m.lane_id = s.lane_id AND m.seq = s.seq AND m.range_low = s.low
        WHERE s.low < s.high AND m.id <= s.high AND NOT (s.among_others AND m.singles_to IS NOT DISTINCT FROM m.id)
    ), page AS (
        SELECT * FROM (
            SELECT * FROM started
            UNION ALL
            SELECT * FROM all_completed
            UNION ALL
            SELECT c.pos, c.n, c.member_xid, c.member, 'completed', c.at, c.queue, c.member_kind, c.member_attempt + 1, c.worker_id, NULL, c.nth, NULL, 0, false
                FROM completed c WHERE p_xid IS NULL OR (c.pos, c.n, c.member_xid, c.member) > (p_pos, p_n, p_xid, p_id)
            UNION ALL
            SELECT t.pos, t.n, NULL, t.job_id, t.event, t.at, t.queue, t.kind, t.attempt, t.worker_id, t.reason, t.nth, NULL, 0, false
                FROM taken t WHERE t.source = 3 AND t.high IS NULL AND t.wanted AND (p_types IS NULL OR t.event = ANY (p_types))
            UNION ALL
            -- A place among the jobs of one row needs a transaction, as one among the jobs of a claim.
            SELECT r.pos, r.n, r.xid, j.id, r.event, r.at, r.queue, r.kind, r.attempt, r.worker_id, r.reason, r.nth, NULL, 0, false
                FROM (SELECT t.*, CASE WHEN t.goes_on THEN p_id + 1 ELSE t.job_id END AS first FROM taken t
                      WHERE t.source = 3 AND t.high IS NOT NULL AND t.wanted AND (p_types IS NULL OR t.event = ANY (p_types))) AS r
                CROSS JOIN LATERAL generate_series(r.first, least(r.high, r.first + p_limit)) AS j(id)) AS x
        -- One more, because of a claim all of whose jobs were told of there is a row without a job, first.
        ORDER BY x.pos, x.n, x.job_xid, x.job_id LIMIT p_limit + 1
    )
    -- One row on the left, so those on the right stay in their order.
    SELECT p_head || 'w/' || p.pos || '/' || p.n || '/' || coalesce(p.job_xid::text, '-') || '/'
               || CASE WHEN p.job_xid IS NULL THEN '-' ELSE p.job_id::text END || '/' || p.found,
           p.job_id, p.event, p.at, coalesce(p.queue, ''), p.kind, p.attempt, p.worker_id, p.reason, p.hidden, coalesce(p.found <> p.jobs, false), p.nth,
           p_head || 'w/' || l.pos || '/' || l.n || '/-/-/0', coalesce(l.cut, false), l.lost
    FROM (SELECT t.pos, t.n, t.cut, EXISTS (
              SELECT 1 FROM counted w WHERE CASE WHEN w.jobs = w.found THEN false ELSE w.jobs IS NULL OR NOT {schema}.rest_is_there(w.lane_id, w.seq, w.jobs, p_from) END) AS lost
          FROM (SELECT 1) AS one LEFT JOIN (SELECT t.pos, t.n, t.cut FROM taken t ORDER BY t.pos DESC, t.n DESC LIMIT 1) AS t ON true) AS l
    LEFT JOIN page p ON true;
END $$;
