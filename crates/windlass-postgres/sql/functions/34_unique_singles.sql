-- Unique jobs that several callers enqueue one by one, in one statement.

-- store_taken(ids, fates, ...): stores those jobs for which take_unique answered 0: without a time when they are due in the log, else where they wait for it. due: NULL
-- where none of them has a time. No SET: its callers have all of that.
CREATE OR REPLACE FUNCTION {schema}.store_taken(
    p_ids bigint[], p_fates smallint[], p_lanes integer[], p_due timestamptz[], p_kinds text[], p_args json[], p_max smallint[], p_attributes text[])
    RETURNS void LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_segment smallint := {schema}.current_segment();
BEGIN
    -- The lowest of a block of ids and a lane leads to the others; see log_rows.
    INSERT INTO {schema}.job (id, segment, lane_id, max_attempts, kind, args, attributes)
        SELECT u.id, v_segment, u.lane, u.most, u.kind, u.args,
            CASE WHEN (u.id & 15) <> 1 AND row_number() OVER (PARTITION BY u.lane, (u.id - 1) | 15 ORDER BY u.id) = 1
                 THEN ' ' || coalesce(nullif(u.attributes, ''), '{}') ELSE u.attributes END
        FROM unnest(p_ids, p_fates, p_lanes, p_due, p_max, p_kinds, p_args, p_attributes) WITH ORDINALITY
             AS u(id, fate, lane, due, most, kind, args, attributes, n)
        WHERE u.fate = 0 AND u.due IS NULL ORDER BY u.n;
    IF coalesce(array_remove(p_due, NULL), '{}') = '{}' THEN RETURN; END IF;
    INSERT INTO {schema}.waiting (id, lane_id, available_at, state, max_attempts, kind, args, attributes)
        SELECT u.id, u.lane, u.due, 'scheduled', u.most, u.kind, u.args, u.attributes
        FROM unnest(p_ids, p_fates, p_lanes, p_due, p_max, p_kinds, p_args, p_attributes) WITH ORDINALITY
             AS u(id, fate, lane, due, most, kind, args, attributes, n)
        WHERE u.fate = 0 AND u.due IS NOT NULL ORDER BY u.n;
END $$;

-- put_unique_singles(keys, ...): checked jobs, each of another caller and under a key that no other of them has. As put_unique for each, but
-- only with the rules 0 keep and 1 extend. queues: for wake().
-- Gives up (SQLSTATE 55P03) where a transaction that is not finished has one of the keys: its caller has to wait then, the
-- others have not. Keys are taken as by take_unique, so two of these calls never wait for each other.
-- Cost: 0.1 ms for one job, 30 us for each of ten; half as much again where the key is taken.
CREATE OR REPLACE FUNCTION {schema}.put_unique_singles(
    p_keys uuid[], p_until_finished boolean[], p_windows bigint[], p_rules smallint[], p_lanes integer[], p_queues text,
    p_kinds text[], p_args json[], p_max smallint[], p_attributes text[], p_due timestamptz[], p_delays bigint[],
    OUT ids bigint[], OUT fates smallint[])
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET lock_timeout = '20ms' SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_now     timestamptz := clock_timestamp();
    v_due     timestamptz[]; -- NULL where the job is available at once
    v_lanes   integer[] := p_lanes; -- NULL where it is not
    v_taken   record;
BEGIN
    IF cardinality(p_keys) = 1 THEN
        SELECT ARRAY[p.id], ARRAY[p.fate] INTO ids, fates FROM {schema}.put_unique(
            p_keys[1], p_until_finished[1], p_windows[1], p_rules[1], NULL, p_lanes[1], p_queues, p_kinds[1], p_args[1]::text, p_max[1],
            p_attributes[1], p_due[1], p_delays[1]) AS p;
        RETURN;
    END IF;
    PERFORM set_config('windlass.queues', p_queues, true);
    IF array_remove(p_due, NULL) <> '{}' OR array_remove(p_delays, NULL) <> '{}' THEN
        v_due := ARRAY(
            SELECT nullif(greatest(coalesce(u.due, v_now + u.delay * interval '1 microsecond'), v_now), v_now)
            FROM unnest(p_due, p_delays) WITH ORDINALITY AS u(due, delay, n) ORDER BY u.n);
        v_lanes := ARRAY(
            SELECT CASE WHEN u.due IS NULL THEN u.lane END FROM unnest(v_due, p_lanes) WITH ORDINALITY AS u(due, lane, n) ORDER BY u.n);
    END IF;
    SELECT * INTO v_taken FROM {schema}.take_unique(p_keys, p_until_finished, p_windows, p_rules, v_lanes);
    ids := v_taken.ids;
    fates := v_taken.fates;
    IF 0 <> ALL (fates) THEN
        PERFORM set_config('windlass.queues', '', true); -- it is not for what comes next
        RETURN;
    END IF;
    PERFORM {schema}.store_taken(ids, fates, p_lanes, v_due, p_kinds, p_args, p_max, p_attributes);
END $$;
