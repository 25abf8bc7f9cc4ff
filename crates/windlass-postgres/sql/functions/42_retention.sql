-- What is kept of single queues and outcomes, by age and by count.

-- set_retention(queue, outcome, age, count): the rule for a queue ('*': for every queue without one of its own) and how its jobs ended: completed,
-- cancelled or discarded. age NULL, count NULL: what the next more general rule says, and in the end configure; both NULL: removes the rule.
-- Completed jobs go by whole segments of the log: they are kept for the longest time that any rule says, and have no count.
CREATE OR REPLACE FUNCTION {schema}.set_retention(queue text, outcome text, age interval DEFAULT NULL, count bigint DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_rules bigint;
BEGIN
    IF $1 IS NULL OR $1 <> '*' AND $1 !~ '^[A-Za-z0-9_.:/-]{1,128}$' THEN
        RAISE 'invalid queue name %: use 1 to 128 of A-Z a-z 0-9 _ . : / -, or * for every queue', coalesce(quote_literal($1), 'NULL') USING ERRCODE = 'WL002';
    END IF;
    IF $1 <> '*' THEN PERFORM {schema}.check_queue($1); END IF;
    IF $2 IS NULL OR $2 NOT IN ('completed', 'cancelled', 'discarded') THEN
        RAISE 'unknown outcome %; use one of completed, cancelled, discarded', coalesce(quote_literal($2), 'NULL') USING ERRCODE = 'WL003';
    END IF;
    IF extract(epoch FROM $3) NOT BETWEEN 0 AND 3162240000 THEN
        RAISE 'the age of a retention rule must be 0 to 100 years, got %', $3 USING ERRCODE = 'WL003';
    END IF;
    IF $2 = 'completed' AND $4 IS NOT NULL THEN
        RAISE 'completed jobs are removed together, so they cannot be kept by count; give an age, or none' USING ERRCODE = 'WL003';
    END IF;
    IF $4 NOT BETWEEN 0 AND 1000000 THEN
        RAISE 'the count of a retention rule must be 0 to 1000000, got %', $4 USING ERRCODE = 'WL003';
    END IF;
    PERFORM 1 FROM {schema}.setting FOR UPDATE; -- one after the other, for the number of rules
    IF $3 IS NULL AND $4 IS NULL THEN
        DELETE FROM {schema}.retention_rule r WHERE r.queue = $1 AND r.outcome = $2;
    ELSE
        INSERT INTO {schema}.retention_rule (queue, outcome, age, count) VALUES ($1, $2, $3, $4)
            ON CONFLICT ON CONSTRAINT retention_rule_pkey DO UPDATE SET age = excluded.age, count = excluded.count;
        SELECT pg_catalog.count(*) INTO v_rules FROM {schema}.retention_rule;
        IF v_rules > 1000 THEN
            RAISE 'a store keeps at most 1000 retention rules; use rules for every queue (*) instead' USING ERRCODE = 'WL003';
        END IF;
    END IF;
    UPDATE {schema}.retention_pass p SET queue = NULL WHERE p.queue IS NOT NULL; -- what was found by other rules is found anew
    PERFORM {schema}.acted('retention.put', $1 || ' ' || $2);
END $$;

-- completed_retention(): how long completed jobs are kept: the longest that is said of any queue.
CREATE OR REPLACE FUNCTION {schema}.completed_retention() RETURNS interval
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (SELECT greatest(s.retention, (SELECT max(r.age) FROM {schema}.retention_rule r WHERE r.outcome = 'completed')) FROM {schema}.setting s);
END $$;

-- remove_dead(ids): with their errors and reports. One that was cancelled and still stands in the log keeps its entry in cancelled_in_log
-- until it is stepped over or moved.
CREATE OR REPLACE FUNCTION {schema}.remove_dead(p_ids bigint[]) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off
AS $$
BEGIN
    DELETE FROM {schema}.dead d WHERE d.id = ANY (p_ids);
    DELETE FROM {schema}.attempt_error e WHERE e.job_id = ANY (p_ids);
    DELETE FROM {schema}.job_report t WHERE t.job_id = ANY (p_ids);
END $$;

-- dead_boundary(lanes, outcome, age, keep): before which (finished_at, id) the dead jobs of a queue, given by its lanes, are past what is kept.
-- Cost: an index entry for each job that is kept by count.
CREATE OR REPLACE FUNCTION {schema}.dead_boundary(
    p_lanes integer[], p_outcome text, p_age interval, p_keep bigint, OUT before_at timestamptz, OUT before_id bigint)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    v_last record;
BEGIN
    before_at := clock_timestamp() - p_age;
    before_id := 0;
    IF p_keep = 0 THEN
        before_at := 'infinity';
    ELSIF p_keep IS NOT NULL THEN
        SELECT x.finished_at, x.id INTO v_last FROM unnest(p_lanes) AS l
            CROSS JOIN LATERAL (
                SELECT d.finished_at, d.id FROM {schema}.dead d WHERE d.lane_id = l AND d.state = p_outcome
                ORDER BY d.finished_at DESC, d.id + 0 DESC LIMIT p_keep) AS x
            ORDER BY x.finished_at DESC, x.id DESC OFFSET p_keep - 1 LIMIT 1;
        IF FOUND AND (v_last.finished_at, v_last.id) > (before_at, before_id) THEN
            before_at := v_last.finished_at;
            before_id := v_last.id;
        END IF;
    END IF;
END $$;

-- forget_dead_by_rule(most): forget_dead where there are rules: queue by queue and outcome by outcome, those that have dead jobs; of the queues of some 500 lanes, and where there are
-- more the next round goes on behind them. Up to which job is found once for each and kept (retention_pass), so that chunk after chunk goes on where the one before ended.
-- Cost: two probes for each of these lanes, once in a pass dead_boundary for each queue and outcome, and the rows that it removes.
CREATE OR REPLACE FUNCTION {schema}.forget_dead_by_rule(p_most integer) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    v_pass  {schema}.retention_pass;
    v_count bigint := 0;
    v_ids   bigint[];
    v_lane  integer;
    v_last  text; -- the last queue that it looks at
    r       record;
BEGIN
    SELECT * INTO v_pass FROM {schema}.retention_pass FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN RETURN 0; END IF; -- somebody else is at it
    SELECT l.queue INTO v_last FROM {schema}.lane l WHERE l.queue >= coalesce(v_pass.queue, '') ORDER BY l.queue OFFSET 499 LIMIT 1;
    FOR r IN
        SELECT l.queue, o.outcome, array_agg(l.id) AS lanes
        FROM (SELECT x.queue, x.id FROM {schema}.lane x WHERE x.queue >= coalesce(v_pass.queue, '') ORDER BY x.queue FETCH FIRST 500 ROWS WITH TIES) AS l
        CROSS JOIN unnest(ARRAY['cancelled', 'discarded']) AS o(outcome)
        CROSS JOIN LATERAL (SELECT 1 FROM {schema}.dead d WHERE d.lane_id = l.id AND d.state = o.outcome LIMIT 1) AS d
        WHERE v_pass.queue IS NULL OR (l.queue, o.outcome) >= (v_pass.queue, v_pass.outcome) GROUP BY 1, 2 ORDER BY 1, 2
    LOOP
        IF (r.queue, r.outcome) IS DISTINCT FROM (v_pass.queue, v_pass.outcome) THEN
            v_pass.queue := r.queue;
            v_pass.outcome := r.outcome;
            SELECT b.before_at, b.before_id INTO v_pass.before_at, v_pass.before_id
                FROM {schema}.setting s
                LEFT JOIN {schema}.retention_rule own ON own.queue = r.queue AND own.outcome = r.outcome
                LEFT JOIN {schema}.retention_rule every ON every.queue = '*' AND every.outcome = r.outcome
                CROSS JOIN LATERAL {schema}.dead_boundary(
                    r.lanes, r.outcome, coalesce(own.age, every.age, s.dead_retention), coalesce(own.count, every.count)) AS b;
        END IF;
        FOREACH v_lane IN ARRAY r.lanes LOOP
            v_ids := ARRAY(
                SELECT d.id FROM {schema}.dead d
                WHERE d.lane_id = v_lane AND d.state = r.outcome AND (d.finished_at, d.id + 0) < (v_pass.before_at, v_pass.before_id)
                ORDER BY d.finished_at, d.id + 0 LIMIT p_most - v_count FOR UPDATE SKIP LOCKED);
            CONTINUE WHEN cardinality(v_ids) = 0;
            PERFORM {schema}.remove_dead(v_ids);
            v_count := v_count + cardinality(v_ids);
            IF v_count >= p_most THEN
                UPDATE {schema}.retention_pass SET queue = v_pass.queue, outcome = v_pass.outcome,
                    before_at = v_pass.before_at, before_id = v_pass.before_id;
                RETURN v_count;
            END IF;
        END LOOP;
    END LOOP;
    -- Behind the last queue; NULL: there is none, and the next call begins a new pass.
    v_last := (SELECT l.queue FROM {schema}.lane l WHERE l.queue > v_last ORDER BY l.queue LIMIT 1);
    UPDATE {schema}.retention_pass p SET queue = v_last, outcome = '' WHERE p.queue IS NOT NULL OR v_last IS NOT NULL;
    RETURN v_count;
END $$;
