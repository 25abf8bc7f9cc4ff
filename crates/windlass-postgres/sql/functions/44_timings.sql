-- What workers measured: adding it, putting together the rows of one time, and removing what is old. See docs/design/timings.md.

-- measure(timings): adds what a worker measured to this minute: [{queue, kind, wait, run, failures: [{fingerprint, sample, last_job, count}]}], as windlass_core::Timing.
-- Its commit is asynchronous: a crash may take some of it along.
CREATE OR REPLACE FUNCTION {schema}.measure(p_timings jsonb) RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_at timestamptz := date_trunc('minute', clock_timestamp(), 'UTC');
BEGIN
    SET LOCAL synchronous_commit = off;
    INSERT INTO {schema}.timing (at, n, queue, kind, wait, run)
        SELECT v_at, coalesce((SELECT sum(e.value::numeric) FROM jsonb_each_text(t.run) e), 0), t.queue, t.kind, t.wait, t.run
        FROM jsonb_to_recordset(p_timings) AS t(queue text, kind text, wait jsonb, run jsonb) WHERE t.wait <> '{}' OR t.run <> '{}';
    INSERT INTO {schema}.failure (at, n, last_job, queue, kind, fingerprint, sample)
        SELECT v_at, f.count, f.last_job, t.queue, t.kind, f.fingerprint, f.sample
        FROM jsonb_to_recordset(p_timings) AS t(queue text, kind text, failures jsonb)
        CROSS JOIN LATERAL jsonb_to_recordset(t.failures) AS f(fingerprint text, sample text, last_job bigint, count bigint);
END $$;

-- join_timings(from, until): puts the rows of this time together, one for each queue and kind, at `from`. At most 250 are told apart.
CREATE OR REPLACE FUNCTION {schema}.join_timings(p_from timestamptz, p_until timestamptz) RETURNS void
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off
AS $$
    WITH gone AS (DELETE FROM {schema}.timing t WHERE t.at >= p_from AND t.at < p_until RETURNING t.*
    ), named AS MATERIALIZED (
        SELECT g.n, g.wait, g.run, CASE WHEN r.nth <= 250 THEN g.queue ELSE '*' END AS queue, CASE WHEN r.nth <= 250 THEN g.kind ELSE '*' END AS kind
        FROM gone g JOIN (
            SELECT x.queue, x.kind, row_number() OVER (ORDER BY sum(x.n) DESC, x.queue, x.kind) AS nth FROM gone x GROUP BY x.queue, x.kind) AS r
            ON r.queue = g.queue AND r.kind = g.kind
    ), counted AS (
        SELECT c.queue, c.kind, jsonb_object_agg(c.key, c.n) FILTER (WHERE c.waits) AS wait, jsonb_object_agg(c.key, c.n) FILTER (WHERE NOT c.waits) AS run
        FROM (SELECT m.queue, m.kind, e.waits, e.key, sum(e.value::numeric) AS n FROM named m
              CROSS JOIN LATERAL (SELECT true AS waits, w.key, w.value FROM jsonb_each_text(m.wait) w
                                  UNION ALL SELECT false, w.key, w.value FROM jsonb_each_text(m.run) w) AS e
              GROUP BY 1, 2, 3, 4) AS c
        GROUP BY c.queue, c.kind)
    INSERT INTO {schema}.timing (at, n, queue, kind, wait, run)
        SELECT p_from, (SELECT sum(m.n) FROM named m WHERE m.queue = c.queue AND m.kind = c.kind), c.queue, c.kind, coalesce(c.wait, '{}'), coalesce(c.run, '{}')
        FROM counted c ORDER BY c.queue, c.kind;
    WITH gone AS (DELETE FROM {schema}.failure f WHERE f.at >= p_from AND f.at < p_until RETURNING f.*
    ), summed AS (
        SELECT g.queue, g.kind, g.fingerprint, sum(g.n)::bigint AS n, max(g.last_job) AS last_job,
               (array_agg(g.sample ORDER BY g.last_job DESC))[1] AS sample
        FROM gone g GROUP BY 1, 2, 3
    ), ranked AS (SELECT s.*, row_number() OVER (ORDER BY s.n DESC, s.queue, s.kind, s.fingerprint) AS nth FROM summed s)
    INSERT INTO {schema}.failure (at, n, last_job, queue, kind, fingerprint, sample)
        SELECT p_from, r.n, r.last_job, r.queue, r.kind, r.fingerprint, r.sample FROM ranked r WHERE r.nth <= 250
        UNION ALL
        SELECT p_from, sum(r.n)::bigint, max(r.last_job), '*', '*', '*', '' FROM ranked r WHERE r.nth > 250 HAVING count(*) > 0
$$;

-- keep_timings(most): one step of housekeeping: puts the rows of the oldest minute together whose transactions have ended, or of the oldest quarter of an hour of more than six hours ago, or removes
-- some of more than 30 days ago. `most` where there is more to do, 0 otherwise.
CREATE OR REPLACE FUNCTION {schema}.keep_timings(p_most integer) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
AS $$
DECLARE
    v_now  timestamptz := clock_timestamp();
    v_old  timestamptz := v_now - interval '30 days';
    v_kept record;
    v_at   timestamptz;
    v_gone bigint;
    v_more bigint;
BEGIN
    SELECT * INTO v_kept FROM {schema}.timing_kept FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN RETURN 0; END IF;
    -- Later than any step goes: the clock was set back since, and what is measured from now on is to be put together, too.
    IF v_kept.minutes > v_now - interval '1 minute' OR v_kept.quarters > v_now - interval '6 hours' THEN
        UPDATE {schema}.timing_kept SET minutes = least(minutes, date_trunc('minute', v_now - interval '1 minute', 'UTC')),
            quarters = least(quarters, v_now - interval '6 hours') RETURNING * INTO v_kept;
    END IF;
    -- What a worker sends is committed within seconds.
    v_at := (SELECT least((SELECT t.at FROM {schema}.timing t WHERE t.at >= v_kept.minutes ORDER BY t.at LIMIT 1),
                          (SELECT f.at FROM {schema}.failure f WHERE f.at >= v_kept.minutes ORDER BY f.at LIMIT 1)));
    IF v_at < v_now - interval '2 minutes' THEN
        PERFORM {schema}.join_timings(v_at, v_at + interval '1 minute');
        UPDATE {schema}.timing_kept SET minutes = v_at + interval '1 minute';
        RETURN p_most;
    END IF;
    v_at := (SELECT least((SELECT t.at FROM {schema}.timing t WHERE t.at >= v_kept.quarters ORDER BY t.at LIMIT 1),
                          (SELECT f.at FROM {schema}.failure f WHERE f.at >= v_kept.quarters ORDER BY f.at LIMIT 1)));
    v_at := to_timestamp(floor(extract(epoch FROM v_at) / 900) * 900);
    IF v_at < v_now - interval '6 hours 15 minutes' THEN
        PERFORM {schema}.join_timings(v_at, v_at + interval '15 minutes');
        UPDATE {schema}.timing_kept SET quarters = v_at + interval '15 minutes';
        RETURN p_most;
    END IF;
    DELETE FROM {schema}.timing t WHERE t.ctid = ANY (ARRAY(SELECT x.ctid FROM {schema}.timing x WHERE x.at < v_old ORDER BY x.at LIMIT p_most));
    GET DIAGNOSTICS v_gone = ROW_COUNT;
    DELETE FROM {schema}.failure f WHERE f.ctid = ANY (ARRAY(SELECT x.ctid FROM {schema}.failure x WHERE x.at < v_old ORDER BY x.at LIMIT p_most));
    GET DIAGNOSTICS v_more = ROW_COUNT;
    RETURN greatest(v_gone, v_more);
END $$;
