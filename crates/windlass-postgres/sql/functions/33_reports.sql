-- What handlers say of their jobs while they run: progress, lines for the log, checkpoints.

-- report(worker, ...): keeps what is new of jobs that the worker holds. One element for each report in all but the last three:
--   lanes, seqs, tokens, jobs, xids: the claim, and the job's row in the log.
--   numbers: which report of this job under this claim it is. One that is not newer than what is stored changes nothing.
--   percents, notes: the progress, NULL: as before. checkpoints: NULL: as before. dropped: lines that came before and are lost.
--   line_of, line_ages, lines: lines for the log, the report (from 1) that each is of, and how many seconds ago it was said.
-- Result: for each report whether it was accepted. A job is named once.
-- Invariant: nothing takes the place of what the next holder of the job said. The row is locked first and what became of the
-- job is looked at then, in a statement of its own: if the next holder wrote before, the settlement that gave it the job is seen.
-- Without a checkpoint it need not survive a crash of the server, which ends no handler's work.
-- Cost: some 10 index probes for each report, whatever the log and this table hold; and the job's log is written anew when
-- lines come. On a busy machine, in one call for 1,000 jobs, 0.1 ms for each, 0.25 ms with five lines.
CREATE OR REPLACE FUNCTION {schema}.report(
    p_worker integer, p_lanes integer[], p_seqs bigint[], p_tokens integer[], p_jobs bigint[], p_xids bigint[], p_numbers bigint[],
    p_attempts smallint[], p_percents double precision[], p_notes text[], p_checkpoints json[], p_dropped bigint[],
    p_line_of integer[], p_line_ages double precision[], p_lines text[]) RETURNS boolean[]
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off SET timezone = 'UTC'
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    v_now  timestamptz := clock_timestamp();
    v_held boolean[];
    v_jobs bigint[]; -- the worker may hold. What it does not hold somebody may be deleting, in a transaction that stays open
BEGIN
    PERFORM {schema}.fence(p_worker);
    IF array_position(p_jobs, NULL) IS NOT NULL THEN
        RAISE 'a report names no job' USING ERRCODE = 'WL003';
    END IF;
    PERFORM set_config('synchronous_commit', 'off', true) WHERE NOT EXISTS (SELECT 1 FROM unnest(p_checkpoints) AS c WHERE c IS NOT NULL);
    -- In one order, so that two calls cannot wait for one another.
    v_jobs := ARRAY(SELECT DISTINCT r.job FROM unnest(p_lanes, p_seqs, p_jobs) AS r(lane, seq, job)
        WHERE NOT EXISTS (SELECT 1 FROM {schema}.settlement_of(r.lane, r.seq, r.job)) ORDER BY r.job);
    INSERT INTO {schema}.job_report (job_id, check_at)
        SELECT j, v_now + (SELECT greatest(s.retention, '10 minutes') FROM {schema}.setting s) FROM unnest(v_jobs) AS j ORDER BY j
        ON CONFLICT DO NOTHING;
    PERFORM 1 FROM {schema}.job_report t WHERE t.job_id = ANY (v_jobs) ORDER BY t.job_id FOR UPDATE;
    -- A new statement: it sees what the locks were waited for.
    SELECT array_agg(c.seq IS NOT NULL AND NOT EXISTS (SELECT 1 FROM {schema}.settlement_of(r.lane, r.seq, r.job)) ORDER BY r.n) INTO v_held
    FROM unnest(p_lanes, p_seqs, p_tokens, p_jobs, p_xids) WITH ORDINALITY AS r(lane, seq, token, job, xid, n)
    LEFT JOIN LATERAL (
        SELECT k.seq FROM {schema}.claim k
        JOIN {schema}.job j ON j.lane_id = r.lane AND j.xid = r.xid::text::xid8 AND j.id = r.job
        WHERE k.lane_id = r.lane AND k.seq = r.seq AND k.token = r.token AND k.worker_id = p_worker AND k.job_count > 0
          AND CASE WHEN k.direct THEN j.xid = ({direct} + r.seq)::text::xid8
                   ELSE pg_visible_in_snapshot(j.xid, k.to_snapshot) AND NOT pg_visible_in_snapshot(j.xid, k.from_snapshot)
                        AND (k.start_xid IS NULL OR (j.xid, j.id) > (k.start_xid, k.start_id))
                        AND (k.end_xid IS NULL OR (j.xid, j.id) <= (k.end_xid, k.end_id)) END
        LIMIT 1) AS c ON true;
    WITH new AS MATERIALIZED (
        SELECT r.*, l.lines FROM unnest(p_lanes, p_seqs, p_jobs, p_numbers, p_attempts, p_percents, p_notes, p_checkpoints, p_dropped)
            WITH ORDINALITY AS r(lane, seq, job, number, attempt, percent, note, checkpoint, dropped, n)
        LEFT JOIN (
            SELECT e.of, json_agg(json_build_object('at', v_now - e.age * interval '1 second', 'attempt', p_attempts[e.of], 'text', e.line)
                                  ORDER BY e.n) AS lines
            FROM unnest(p_line_of, p_line_ages, p_lines) WITH ORDINALITY AS e(of, age, line, n) GROUP BY e.of) AS l ON l.of = r.n
        WHERE v_held[r.n]
    )
    UPDATE {schema}.job_report t
    SET number = w.number, seq = w.seq, lane_id = w.lane, worker_id = p_worker, reported_at = v_now, attempt = w.attempt,
        percent = coalesce(w.percent, t.percent), note = CASE WHEN w.percent IS NULL THEN t.note ELSE w.note END,
        checkpoint = coalesce(w.checkpoint, t.checkpoint),
        log = CASE WHEN w.lines IS NULL THEN t.log ELSE m.log END,
        log_dropped = t.log_dropped + w.dropped + coalesce(m.dropped, 0)
    FROM new w
    LEFT JOIN {schema}.job_report o ON o.job_id = w.job AND w.lines IS NOT NULL
    LEFT JOIN LATERAL {schema}.log_with(o.log, w.lines) AS m ON w.lines IS NOT NULL
    WHERE t.job_id = w.job
      AND (t.number < w.number OR t.worker_id IS DISTINCT FROM p_worker OR t.lane_id IS DISTINCT FROM w.lane OR t.seq IS DISTINCT FROM w.seq);
    IF NOT (true = ALL (v_held)) THEN
        DELETE FROM {schema}.job_report t WHERE t.job_id = ANY (v_jobs) AND t.worker_id IS NULL;
    END IF;
    RETURN v_held;
END $$;

-- log_with(log, lines): a job's log with lines behind it, the newest 100 of them and 64 KiB; and how many older ones that leaves out.
CREATE OR REPLACE FUNCTION {schema}.log_with(p_log json, p_lines json, OUT log json, OUT dropped bigint)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
    SELECT json_agg(s.line ORDER BY s.nth) FILTER (WHERE s.kept), count(*) FILTER (WHERE NOT s.kept)
    FROM (
        SELECT a.line, a.nth, row_number() OVER newest <= 100 AND sum(octet_length(a.line ->> 'text')) OVER newest <= 65536 AS kept
        FROM (
            SELECT o.line, o.n AS nth FROM json_array_elements(coalesce(p_log, '[]')) WITH ORDINALITY AS o(line, n)
            UNION ALL
            SELECT w.line, 1000000 + w.n FROM json_array_elements(p_lines) WITH ORDINALITY AS w(line, n)) AS a
        WINDOW newest AS (ORDER BY a.nth DESC)) AS s
$$;

-- checkpoints(ids): the last checkpoint of each job, in order; NULL for one that has none.
-- Cost: a probe for each.
CREATE OR REPLACE FUNCTION {schema}.checkpoints(p_ids bigint[]) RETURNS json[]
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
    SELECT array_agg(t.checkpoint ORDER BY u.n)
    FROM unnest(p_ids) WITH ORDINALITY AS u(id, n) LEFT JOIN {schema}.job_report t ON t.job_id = u.id
$$;

-- progress(id): what the handlers of a job said of it, also while it runs; no row when they said nothing.
-- attempt, reported_at: who said something last, and when. log: a JSON array of {"at", "attempt", "text"}, oldest first.
-- Cost: a probe.
CREATE OR REPLACE FUNCTION {schema}.progress(id bigint) RETURNS TABLE (
        percent double precision, note text, attempt smallint, reported_at timestamptz, checkpoint json, log json, log_dropped bigint)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
    SELECT t.percent, t.note, t.attempt, t.reported_at, t.checkpoint, coalesce(t.log, '[]'), t.log_dropped
    FROM {schema}.job_report t WHERE t.job_id = $1
$$;

-- forget_reports(most): of jobs that are not readable any more. Looks at each row once in a retention, and at least ten minutes
-- apart. Returns how many it looked at; `most` also when 50 ms were over before it had seen them all,
-- so that a round, which calls it 200 times at most, stays shorter than the term of who leads.
-- Whether a job is there is what find_job says, in one statement: a row that only seems to belong to nobody, because its job moves
-- just now, would lose its checkpoint. A job that its last claim still has is not looked for that long.
-- Cost: 0.1 ms for each row; for jobs that came back and were not reported of since, find_job.
CREATE OR REPLACE FUNCTION {schema}.forget_reports(p_most integer) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    v_now   timestamptz := clock_timestamp();
    v_next  timestamptz := v_now + (SELECT greatest(s.retention, '10 minutes') FROM {schema}.setting s);
    v_count bigint := 0;
    v_there boolean;
    r       record;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtext({name} || '.rotate'), 0);
    -- Where the log came from elsewhere and is not in order yet, no position means anything.
    IF {schema}.home_state() = 'moved' THEN RETURN 0; END IF;
    FOR r IN
        SELECT t.job_id, t.lane_id, t.seq, t.worker_id FROM {schema}.job_report t WHERE t.check_at < v_now
        ORDER BY t.check_at LIMIT p_most FOR UPDATE SKIP LOCKED
    LOOP
        v_count := v_count + 1;
        v_there := EXISTS (SELECT 1 FROM {schema}.claim k WHERE k.lane_id = r.lane_id AND k.seq = r.seq AND k.worker_id = r.worker_id)
               AND coalesce((SELECT s.completed FROM {schema}.settlement_of(r.lane_id, r.seq, r.job_id) s), true)
            OR (SELECT f.place IS NOT NULL FROM {schema}.find_job(r.job_id) f);
        IF v_there THEN
            UPDATE {schema}.job_report t SET check_at = v_next WHERE t.job_id = r.job_id;
        ELSE
            DELETE FROM {schema}.job_report t WHERE t.job_id = r.job_id;
        END IF;
        IF clock_timestamp() > v_now + interval '50 ms' THEN RETURN p_most; END IF;
    END LOOP;
    RETURN v_count;
END $$;
