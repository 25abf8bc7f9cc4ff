-- Removing what is known of keys that are not there.

-- forget_key_turns(most): keys of which nothing waits, and lanes that are gone. Looks at so many at most, of 100 lanes, since it keeps the lock of each queue until the
-- transaction ends; at each once an hour. Returns how many; p_most: there are more.
-- Cost: two probes for each.
CREATE OR REPLACE FUNCTION {schema}.forget_key_turns(p_most integer) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    v_state {schema}.housekeeping;
    v_lanes integer[];
    v_keys  text[];
    v_of    record;  -- those of one queue
    v_more  boolean;
BEGIN
    IF NOT EXISTS (SELECT 1 FROM {schema}.key_lane) THEN RETURN 0; END IF;
    PERFORM {schema}.forget_ended();
    SELECT * INTO v_state FROM {schema}.housekeeping FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN RETURN 0; END IF;
    -- In the future: the clock was set back since.
    IF v_state.turns_began_at NOT BETWEEN clock_timestamp() - interval '1 hour' AND clock_timestamp() THEN
        v_state.turns_lane := -2147483648;
        v_state.turns_key := '';
        UPDATE {schema}.housekeeping SET turns_began_at = clock_timestamp(), turns_lane = v_state.turns_lane, turns_key = v_state.turns_key;
        DELETE FROM {schema}.key_lane c WHERE NOT EXISTS (SELECT 1 FROM {schema}.lane l WHERE l.id = c.lane_id);
        DELETE FROM {schema}.key_signal s WHERE NOT EXISTS (SELECT 1 FROM {schema}.lane l WHERE l.id = s.lane_id);
        DELETE FROM {schema}.key_lookahead a WHERE NOT EXISTS (SELECT 1 FROM {schema}.lane l WHERE l.id = a.lane_id);
    END IF;
    SELECT array_agg(x.lane_id) FILTER (WHERE x.nth <= 100), array_agg(x.key) FILTER (WHERE x.nth <= 100), bool_or(x.nth > 100) INTO v_lanes, v_keys, v_more FROM (
        SELECT t.lane_id, t.key, dense_rank() OVER (ORDER BY t.lane_id) AS nth FROM (
            SELECT t.lane_id, t.key FROM {schema}.key_turn t WHERE (t.lane_id, t.key) > (v_state.turns_lane, v_state.turns_key)
            ORDER BY t.lane_id, t.key, t.n LIMIT p_most) AS t) AS x;
    IF v_lanes IS NULL THEN RETURN 0; END IF;
    FOR v_of IN SELECT l.queue, array_agg(u.lane_id) AS lanes, array_agg(u.key) AS keys
                FROM unnest(v_lanes, v_keys) AS u(lane_id, key) LEFT JOIN {schema}.lane l ON l.id = u.lane_id GROUP BY l.queue
    LOOP
        CONTINUE WHEN v_of.queue IS NOT NULL AND NOT {schema}.lock_keys(v_of.queue, false);
        -- Should it come back it begins at the lane's present time, as a new one does.
        DELETE FROM {schema}.key_turn t USING unnest(v_of.lanes, v_of.keys) AS u(lane_id, key)
            WHERE t.lane_id = u.lane_id AND t.key = u.key
              AND (v_of.queue IS NULL OR t.tag IS NULL AND NOT t.blocked AND NOT EXISTS (
                  SELECT 1 FROM {schema}.waiting h WHERE h.state = 'keyed' AND h.lane_id = t.lane_id AND {schema}.key_of(h.attributes) = t.key));
    END LOOP;
    UPDATE {schema}.housekeeping SET turns_lane = v_lanes[cardinality(v_lanes)], turns_key = v_keys[cardinality(v_keys)];
    RETURN CASE WHEN v_more THEN p_most ELSE cardinality(v_lanes) END;
END $$;
