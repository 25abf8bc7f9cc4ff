-- note_came_back(at): that this transaction writes rows of jobs to the log again, which can start since then. Not where one within the second before says so.
-- Cost: an index probe, and a row at most once a second.
CREATE OR REPLACE FUNCTION {schema}.note_came_back(p_at timestamptz) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO {schema}.came_back (xid, at) SELECT pg_current_xact_id(), p_at
        WHERE NOT coalesce((SELECT c.at BETWEEN p_at - interval '1 second' AND p_at FROM {schema}.came_back c ORDER BY c.xid DESC LIMIT 1), false)
        ON CONFLICT DO NOTHING;
END $$;

-- startable_since(xid, enqueued_at): since when the job of a row of the log that is marked as moved could start, to a second. A row that stands where its enqueue
-- wrote it, and was only moved between segments, and one of which nothing is known any more: since its enqueue.
CREATE OR REPLACE FUNCTION {schema}.startable_since(p_xid xid8, p_enqueued_at timestamptz) RETURNS timestamptz
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
    SELECT greatest(p_enqueued_at, (SELECT c.at FROM {schema}.came_back c WHERE c.xid <= p_xid ORDER BY c.xid DESC LIMIT 1))
$$;

-- forget_came_back(most): what is older than three days. Returns how many.
CREATE OR REPLACE FUNCTION {schema}.forget_came_back(p_most integer) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off SET enable_sort = off
AS $$
DECLARE
    v_count bigint;
BEGIN
    DELETE FROM {schema}.came_back c WHERE c.xid = ANY (ARRAY(
        SELECT x.xid FROM {schema}.came_back x WHERE x.at < (SELECT clock_timestamp() - interval '3 days')
        ORDER BY x.at LIMIT p_most FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END $$;

-- promote(limit, from): moves due jobs into the log. Returns how many, how long until the next is due in ms (NULL when none
-- waits, or when somebody else is at it), and from where the next call of this caller may look.
-- One promotes at a time, so that many callers do the work of one; the others stand back at once.
-- from_at, from_id: a position in the order of due times before which nothing waits, as far as this caller knows; NULL: look from the
-- beginning. Without it each call would walk the index entries of all jobs that were promoted since the oldest open
-- transaction began. A job that is committed more than a second after it was due lies before it: look from the
-- beginning from time to time.
-- Also tells idle workers where the rate of a key allows more of its jobs: see promote_keys.
-- Cost: one index probe when nothing is due, and those of promote_keys.
CREATE OR REPLACE FUNCTION {schema}.promote(
    p_limit integer, INOUT from_at timestamptz DEFAULT NULL, INOUT from_id bigint DEFAULT NULL,
    OUT promoted bigint, OUT next_due_ms double precision)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
AS $$
#variable_conflict use_column
DECLARE
    v_now     timestamptz := clock_timestamp();
    v_at      timestamptz := coalesce(from_at, '-infinity');
    v_id      bigint := coalesce(from_id, 0);
    -- What is due there may be put off by who changes limits of keys, and is looked for so far back; what is put off for longer is found from the beginning.
    v_keys    timestamptz := from_at - interval '1 minute';
    v_segment smallint;
    v_last    record;
BEGIN
    promoted := 0;
    SELECT h.available_at AS at INTO v_last FROM {schema}.waiting h
        WHERE h.state IN ('scheduled', 'retryable') AND (h.available_at, h.id) > (v_at, v_id) ORDER BY h.available_at, h.id LIMIT 1;
    IF v_last.at <= v_now THEN
        IF NOT pg_try_advisory_xact_lock(hashtext({name} || '.promote'), 0) THEN RETURN; END IF;
        v_segment := {schema}.current_segment();
        PERFORM set_config('windlass.keyed_claim', 'on', true); -- what is due is not over: nothing is told of its key
        WITH due AS MATERIALIZED (
            SELECT h.id FROM {schema}.waiting h
            WHERE h.state IN ('scheduled', 'retryable') AND (h.available_at, h.id) > (v_at, v_id) AND h.available_at <= v_now
            ORDER BY h.available_at, h.id LIMIT p_limit FOR UPDATE SKIP LOCKED
        ), taken AS (
            -- By an array, which is looked up in the primary key: as a join it is planned the other way round where statistics say that nothing waits.
            DELETE FROM {schema}.waiting h WHERE h.id = ANY (ARRAY(SELECT d.id FROM due d)) RETURNING h.*
        ), logged AS (
            INSERT INTO {schema}.job (id, enqueued_at, lane_id, segment, attempt, max_attempts, crash_count, moved, kind, args, attributes)
            SELECT id, enqueued_at, lane_id, v_segment, attempt, max_attempts, crash_count, true, kind, args, attributes
            FROM taken ORDER BY available_at, id
        )
        SELECT count(*) AS n, min(t.available_at) AS first, max(t.available_at) AS at,
               (SELECT x.id FROM taken x ORDER BY x.available_at DESC, x.id DESC LIMIT 1) AS id INTO v_last FROM taken t;
        PERFORM set_config('windlass.keyed_claim', '', true);
        promoted := v_last.n;
        IF promoted > 0 THEN PERFORM {schema}.note_came_back(v_last.first); END IF;
        IF promoted = p_limit AND p_limit > 0 THEN
            v_at := v_last.at;
            v_id := v_last.id;
        END IF;
    END IF;
    IF promoted < p_limit THEN
        -- Nothing that is visible now is due; what is being committed has a second.
        v_at := v_now - interval '1 second';
        v_id := 0;
    END IF;
    from_at := nullif(v_at, '-infinity');
    from_id := CASE WHEN from_at IS NOT NULL THEN v_id END;
    SELECT h.available_at AS at INTO v_last FROM {schema}.waiting h
        WHERE h.state IN ('scheduled', 'retryable') AND (h.available_at, h.id) > (v_at, v_id) ORDER BY h.available_at, h.id LIMIT 1;
    v_at := least(v_last.at, {schema}.promote_keys(v_keys));
    IF v_at IS NOT NULL THEN next_due_ms := greatest(extract(epoch FROM v_at - clock_timestamp()) * 1000, 0); END IF;
END $$;
