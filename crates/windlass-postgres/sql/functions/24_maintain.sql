-- maintain(): one step of emptying segments and moving the ring on, in a short transaction of its own. Call it until `again` is false, a bounded number of times: then call it in
-- the next round, where it goes on. Cheap when there is nothing to do. Two callers do no harm: one of them finds
-- nothing to do.
-- A step moves at most 10,000 jobs and about 32 MiB, or truncates one segment, or moves the ring on. What has been done of a segment is kept in
-- table housekeeping; should that be wrong, still_needed finds it and the segment is gone through anew.
-- Does nothing where the log came here from another cluster and is not in order yet: no position means anything then.
CREATE OR REPLACE FUNCTION {schema}.maintain(
    OUT rotated boolean, OUT truncated integer, OUT rehomed bigint, OUT again boolean)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
DECLARE
    v_state   {schema}.housekeeping;
    v_set     {schema}.setting;
    v_segment smallint;
    v_end     text;
    v_now     pg_snapshot := pg_current_snapshot(); -- before anything gives this transaction an id, see fold_step
BEGIN
    rotated := false;
    truncated := 0;
    rehomed := 0;
    again := false;
    IF {schema}.home_state() = 'moved' THEN RETURN; END IF;
    SELECT * INTO v_state FROM {schema}.housekeeping FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN RETURN; END IF;
    PERFORM {schema}.follow_clock();
    SELECT * INTO v_set FROM {schema}.setting;
    v_set.retention := {schema}.completed_retention();
    v_segment := {schema}.oldest_segment(v_set.retention);
    IF v_segment IS NOT NULL THEN
        IF v_state.segment IS DISTINCT FROM v_segment THEN
            PERFORM {schema}.adopt_lanes(v_segment);
            PERFORM {schema}.forget_events({schema}.newest_in_segment(v_segment));
            v_state.lane_id := -2147483648;
            v_state.xid := '0';
            v_state.id := 0;
        END IF;
        IF v_state.segment IS NOT DISTINCT FROM v_segment AND v_state.lane_id IS NULL THEN
            rehomed := {schema}.move_claims(v_segment, 10000);
            IF rehomed = 0 AND {schema}.uncounted_in(v_segment) THEN
                PERFORM {schema}.count_before_emptying(v_now);
            ELSIF rehomed = 0 THEN
                PERFORM {schema}.move_settlements(v_segment);
                PERFORM {schema}.forget_events({schema}.newest_in_segment(v_segment)); -- cursors move without their jobs
                PERFORM {schema}.move_cursors(v_segment);
                v_end := {schema}.truncate_segment(v_segment);
                -- Emptied, or to be gone through anew.
                IF v_end <> 'busy' THEN UPDATE {schema}.housekeeping SET segment = NULL; END IF;
            END IF;
        ELSE
            SELECT m.moved, m.p_lane, m.p_xid, m.p_id INTO rehomed, v_state.lane_id, v_state.xid, v_state.id
                FROM {schema}.move_jobs(v_segment, v_state.lane_id, v_state.xid, v_state.id, 10000) m;
            UPDATE {schema}.housekeeping SET segment = v_segment, lane_id = v_state.lane_id, xid = v_state.xid, id = v_state.id;
        END IF;
        truncated := (v_end IS NOT DISTINCT FROM 'emptied')::integer;
        again := v_end IS NULL OR v_end = 'emptied';
    END IF;
    IF NOT again THEN
        rotated := {schema}.rotate(v_set.retention, v_set.segment_bytes);
    END IF;
END $$;
