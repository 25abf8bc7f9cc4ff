-- promote(limit): moves due jobs into the log. Returns how many, and how long until the next, in ms.
-- Two promoters never take the same row; none waits for another.
CREATE OR REPLACE FUNCTION {schema}.promote(p_limit integer, OUT promoted bigint, OUT next_due_ms double precision)
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off
AS $$
DECLARE
    v_now     timestamptz := clock_timestamp();
    v_segment smallint := {schema}.current_segment();
BEGIN
    promoted := 0;
    IF EXISTS (SELECT 1 FROM {schema}.waiting WHERE state <> 'no_handler' AND available_at <= v_now) THEN
        WITH due AS MATERIALIZED (
            SELECT id FROM {schema}.waiting WHERE state <> 'no_handler' AND available_at <= v_now
            ORDER BY available_at LIMIT p_limit FOR UPDATE SKIP LOCKED
        ), taken AS (
            DELETE FROM {schema}.waiting h WHERE h.id = ANY (SELECT id FROM due) RETURNING h.*
        )
        INSERT INTO {schema}.job (id, enqueued_at, lane_id, segment, attempt, max_attempts, crash_count, moved, kind, args, attributes)
            SELECT id, enqueued_at, lane_id, v_segment, attempt, max_attempts, crash_count, true, kind, args, attributes
            FROM taken ORDER BY available_at, id;
        GET DIAGNOSTICS promoted = ROW_COUNT;
    END IF;
    SELECT greatest(extract(epoch FROM available_at - clock_timestamp()) * 1000, 0) INTO next_due_ms
        FROM {schema}.waiting WHERE state <> 'no_handler' ORDER BY available_at LIMIT 1;
END $$;
