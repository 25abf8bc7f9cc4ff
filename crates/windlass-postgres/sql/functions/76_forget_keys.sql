-- Removing what is known of keys that are not there.

-- forget_key_turns(most): keys of which nothing waits, and lanes that are gone. Looks at so many at most, each once an hour. Returns how many.
-- Cost: two probes for each.
CREATE OR REPLACE FUNCTION {schema}.forget_key_turns(p_most integer) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    v_state {schema}.housekeeping;
    v_low   bigint;
    v_high  bigint;
    v_count bigint;
    v_queue text;
BEGIN
    IF NOT EXISTS (SELECT 1 FROM {schema}.key_turn) THEN RETURN 0; END IF;
    SELECT * INTO v_state FROM {schema}.housekeeping FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN RETURN 0; END IF;
    v_low := v_state.turns_checked;
    IF v_state.turns_began_at < clock_timestamp() - interval '1 hour' THEN
        v_low := 0;
        UPDATE {schema}.housekeeping SET turns_began_at = clock_timestamp();
        DELETE FROM {schema}.key_turn t WHERE NOT EXISTS (SELECT 1 FROM {schema}.lane l WHERE l.id = t.lane_id);
        DELETE FROM {schema}.key_lane c WHERE NOT EXISTS (SELECT 1 FROM {schema}.lane l WHERE l.id = c.lane_id);
        DELETE FROM {schema}.key_signal s WHERE NOT EXISTS (SELECT 1 FROM {schema}.lane l WHERE l.id = s.lane_id);
    END IF;
    SELECT max(x.n), count(*) INTO v_high, v_count FROM (SELECT t.n FROM {schema}.key_turn t WHERE t.n > v_low ORDER BY t.n LIMIT p_most) AS x;
    FOR v_queue IN SELECT DISTINCT l.queue FROM {schema}.key_turn t JOIN {schema}.lane l ON l.id = t.lane_id WHERE t.n > v_low AND t.n <= v_high LOOP
        CONTINUE WHEN NOT {schema}.lock_keys(v_queue, false);
        -- The end of its last job is past: so it will begin at the lane's present time, as a new one does.
        DELETE FROM {schema}.key_turn t USING {schema}.lane l
            WHERE l.queue = v_queue AND t.lane_id = l.id AND t.n > v_low AND t.n <= v_high AND t.tag IS NULL AND NOT t.blocked
              AND (SELECT 1 FROM {schema}.waiting h WHERE h.state = 'keyed' AND h.lane_id = t.lane_id AND {schema}.key_of(h.attributes) = t.key LIMIT 1) IS NULL;
    END LOOP;
    UPDATE {schema}.housekeeping SET turns_checked = coalesce(v_high, v_low);
    RETURN v_count;
END $$;
