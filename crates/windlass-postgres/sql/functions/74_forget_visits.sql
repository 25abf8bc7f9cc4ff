-- Removing what is known of keys and counts no more.

-- forget_visits(most): rows of keyed lanes that newer ones follow; from time to time also the last of keys of which no job is in the log. Looks at so many at most, each once an hour. Returns how many.
CREATE OR REPLACE FUNCTION {schema}.forget_visits(p_most integer) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_incremental_sort = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    v_state {schema}.housekeeping;
    v_low   bigint;
    v_high  bigint;
    v_count bigint;
    v_queue text;
BEGIN
    SELECT * INTO v_state FROM {schema}.housekeeping FOR UPDATE SKIP LOCKED;
    IF NOT FOUND OR NOT EXISTS (SELECT 1 FROM {schema}.lane l WHERE l.id < 0) THEN RETURN 0; END IF;
    v_low := v_state.visits_checked;
    IF v_state.visits_began_at < clock_timestamp() - interval '1 hour' THEN
        v_low := 0;
        UPDATE {schema}.housekeeping SET visits_began_at = clock_timestamp();
    END IF;
    SELECT max(x.n), count(*) INTO v_high, v_count FROM (
        (SELECT v.n FROM {schema}.key_visit v WHERE v.n > v_low ORDER BY v.n LIMIT p_most)) AS x;
    -- Of keys that have nothing in the log, all; of others, what a newer row follows.
    FOR v_queue IN SELECT DISTINCT l.queue FROM {schema}.lane l WHERE l.id < 0 LOOP
        CONTINUE WHEN v_count = 0 OR NOT {schema}.lock_keys(v_queue, false);
        WITH newest AS MATERIALIZED (
            SELECT w.*, w.tag IS NULL AND NOT w.blocked
                   AND (SELECT 1 FROM {schema}.job j WHERE j.lane_id = w.lane_id AND j.lane_id < 0 AND j.xid < '{direct}'
                        AND {schema}.key_of(j.attributes) = w.key ORDER BY j.id LIMIT 1) IS NULL AS idle
            FROM (SELECT DISTINCT v.lane_id, v.key FROM {schema}.key_visit v JOIN {schema}.lane l ON l.id = v.lane_id
                  WHERE v.n > v_low AND v.n <= v_high AND l.queue = v_queue) AS k
            CROSS JOIN LATERAL (SELECT * FROM {schema}.key_visit v WHERE v.lane_id = k.lane_id AND v.key = k.key ORDER BY v.n DESC LIMIT 1) AS w
        ), late AS (
            DELETE FROM {schema}.key_late t USING newest n WHERE n.idle AND t.lane_id = n.lane_id AND t.key = n.key)
        DELETE FROM {schema}.key_visit v USING newest n
            WHERE v.lane_id = n.lane_id AND v.key = n.key AND (v.n < n.n OR n.idle);
        DELETE FROM {schema}.key_hold h USING (
            SELECT DISTINCT ON (x.key) x.key, x.n, x.ids FROM {schema}.key_hold x WHERE x.queue = v_queue ORDER BY x.key, x.n DESC) AS n
            WHERE h.queue = v_queue AND h.key = n.key AND (h.n < n.n OR n.ids = '{}');
        DELETE FROM {schema}.key_cursor c USING (
            SELECT l.id, (SELECT max(k.n) FROM {schema}.key_cursor k WHERE k.lane_id = l.id) AS n FROM {schema}.lane l WHERE l.queue = v_queue AND l.id < 0) AS n
            WHERE c.lane_id = n.id AND c.n < n.n;
    END LOOP;
    IF v_low = 0 THEN
        DELETE FROM {schema}.key_visit v WHERE NOT EXISTS (SELECT 1 FROM {schema}.lane l WHERE l.id = v.lane_id);
        DELETE FROM {schema}.key_cursor c WHERE NOT EXISTS (SELECT 1 FROM {schema}.lane l WHERE l.id = c.lane_id);
        DELETE FROM {schema}.key_late t WHERE NOT EXISTS (SELECT 1 FROM {schema}.lane l WHERE l.id = t.lane_id);
        DELETE FROM {schema}.key_signal s WHERE NOT EXISTS (SELECT 1 FROM {schema}.lane l WHERE l.id = s.lane_id);
    END IF;
    UPDATE {schema}.housekeeping SET visits_checked = coalesce(v_high, v_low);
    RETURN v_count;
END $$;
