-- Claims of keyed queues: which of their lanes they read, and how they hand out what is there. They run inside claim.

-- claim_keyed_queue(...): claims of one keyed queue. Result as claim.
CREATE OR REPLACE FUNCTION {schema}.claim_keyed_queue(
    p_worker integer, p_name text, p_limit integer, p_bytes bigint, p_kinds text[], p_call bigint, p_queue integer)
    RETURNS TABLE (head bigint[], xid xid8, id bigint, attempt smallint, max_attempts smallint,
                   crash_count smallint, enqueued_at timestamptz, kind text, args json, attributes text)
    LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    v_wakeup text := coalesce(current_setting('windlass.wakeup', true), '');
    v_more   boolean := false;
    v_others boolean := false; -- somebody else has the queue or a lane of it
    v_behind integer[] := '{}'; -- keyed lanes of which not all is there yet: a lower id may be to come
    v_taken  integer[] := '{}'; -- those of which somebody else has the lock
    v_unread integer[] := '{}'; -- those of which not all of the log is read
    v_left   integer := p_limit;
    v_keyed  integer;
    v_rates  boolean;  -- some key has a rate; NULL: the queue is not keyed
    v_serial boolean := {schema}.keys_are_serial(p_name);
    v_limits boolean := {schema}.keys_are_limited(p_name);
    -- One claim in 16 looks whether a lane starves that comes after others.
    v_look   boolean := random() < 0.0625 AND (SELECT count(DISTINCT x.priority) > 1 FROM {schema}.lane x WHERE x.queue = p_name);
    v_choice boolean;  -- something may be in turn in the lanes until here, other than what key_ready tells
    v_quick  boolean;  -- jobs of the lane are done as quickly as they are moved, and order does not matter: not all has to be there before some is handed out
    v_page   integer := coalesce(nullif(current_setting('windlass.keyed_page', true), ''), '4000')::integer; -- tests have smaller ones
    v_most   integer;
    v_rest   boolean;  -- there is more in the log of the lane than was read
    v_ahead  {schema}.key_lookahead;
    v_alone  boolean;
    v_next   record;   -- the lane whose log goes on where what is in turn leaves something: id, priority
    v_due    timestamptz;
    l        record;
BEGIN
    IF {schema}.lock_keys(p_name, false) THEN SELECT q.key_rates INTO v_rates FROM {schema}.queue q WHERE q.name = p_name AND q.keyed; END IF;
    IF v_rates IS NULL THEN
        v_others := true;
        v_left := 0;
    END IF;
    v_choice := v_look;
    SELECT NULL::integer AS id, NULL::smallint AS priority INTO v_next;
    PERFORM set_config('windlass.wakeup', 'off', true), set_config('windlass.keyed_claim', 'on', true); -- what is written here is nothing new
    IF v_left > 0 AND v_limits AND {schema}.make_room(p_name, v_page) THEN
        v_more := true;
        v_left := 0;
    END IF;
    IF v_left > 0 AND v_rates THEN PERFORM {schema}.past_counts_no_more(p_name); END IF;
    -- Of a priority the lane that jobs are written to comes last: it may hand out what it has when nothing else is to be had.
    FOR l IN SELECT x.id, x.priority, lead(x.priority) OVER o IS DISTINCT FROM x.priority AS last FROM {schema}.lane x WHERE v_left > 0 AND x.queue = p_name
             WINDOW o AS (ORDER BY x.priority, x.id > 0, x.id DESC) ORDER BY x.priority, x.id > 0, x.id DESC
    LOOP
        EXIT WHEN v_left <= 0 OR p_bytes <= 0;
        v_keyed := CASE WHEN l.id < 0 THEN l.id ELSE {schema}.keyed_lane(p_name, l.priority) END;
        -- Nothing comes into a keyed lane while rows of its log are to be stepped over (see lane_for), nor while somebody else has its lock, who may be cancelling or editing
        -- there: a job that comes back through that log would be taken for such a row. Each claim has read on in it before it is here.
        CONTINUE WHEN l.id > 0 AND (v_keyed = ANY (v_taken)
                                    OR v_keyed = ANY (v_unread) AND EXISTS (SELECT 1 FROM {schema}.cancelled_in_log s WHERE s.lane_id = v_keyed));
        IF NOT pg_try_advisory_xact_lock(hashtext({name} || '.lane'), l.id) THEN
            v_others := true;
            v_choice := true;
            IF l.id < 0 THEN v_taken := v_taken || l.id; ELSE v_behind := v_behind || v_keyed; END IF;
            CONTINUE;
        END IF;
        IF {schema}.route_no_handler(l.id, v_keyed, p_kinds) THEN
            v_more := true;
            v_choice := true;
            v_behind := v_behind || v_keyed;
        END IF;
        v_ahead := CASE WHEN l.id > 0 THEN {schema}.lookahead_of(l.id) END;
        IF NOT (SELECT a.ahead FROM {schema}.log_ahead(l.id) a) THEN
            IF v_ahead.keys IS NOT NULL THEN PERFORM {schema}.end_lookahead(l.id); END IF;
            CONTINUE;
        END IF;
        -- All is found that is not of one key: what comes first in the log is as good as any.
        v_alone := NOT v_serial AND v_ahead.end_xid IS NULL AND coalesce(cardinality(v_ahead.keys), 0) = 1;
        v_quick := v_alone OR NOT v_serial AND {schema}.keys_are_quick(l.id, v_keyed);
        -- Where keys are in turn already more is handed out than is read. While claims look ahead, what comes next can wait.
        v_most := CASE WHEN v_quick THEN greatest(v_left / 2, 1) WHEN v_ahead.end_xid IS NOT NULL AND v_ahead.keys IS NOT NULL THEN greatest(v_page / 40, 1) ELSE v_page END;
        IF v_alone AND l.last AND NOT v_limits AND NOT v_choice THEN -- what is in turn goes first, with what is found now; then what comes next
            v_more := true;
            PERFORM {schema}.look_ahead(l.id, v_keyed, v_page);
            SELECT l.id, l.priority INTO v_next;
            EXIT; -- lanes of worse priorities come after it
        END IF;
        IF l.id > 0 AND l.last AND NOT v_choice AND NOT EXISTS (
               SELECT 1 FROM {schema}.lane x WHERE x.queue = p_name AND x.id < 0 AND x.priority <= l.priority AND {schema}.key_ready({schema}.key_lane_of(x.id))) THEN
            FOR how IN CASE WHEN v_limits THEN 2 ELSE 1 END..2 LOOP
                IF how = 1 THEN
                    RETURN QUERY SELECT * FROM {schema}.claim_straight(p_worker, l.id, v_keyed, v_left, p_bytes, v_quick, p_call, p_queue, l.priority, p_name);
                ELSE
                    RETURN QUERY SELECT * FROM {schema}.claim_fresh(
                        p_worker, l.id, v_keyed, v_left, p_bytes, greatest(v_most, v_left), NOT v_quick, p_call, p_queue, l.priority, p_name);
                END IF;
                EXIT WHEN current_setting('windlass.keyed_rest') <> 'route';
            END LOOP;
            v_left := v_left - current_setting('windlass.keyed')::integer;
            IF current_setting('windlass.keyed') <> '0' THEN p_bytes := p_bytes - current_setting('windlass.keyed_bytes')::bigint; END IF;
            v_rest := current_setting('windlass.keyed_rest') = 'more';
            v_more := v_more OR v_rest;
            IF current_setting('windlass.keyed_rest') <> 'route' THEN
                IF v_rest AND NOT v_serial THEN PERFORM {schema}.look_ahead(l.id, v_keyed, v_page);
                ELSIF v_ahead.keys IS NOT NULL THEN PERFORM {schema}.end_lookahead(l.id); END IF;
                CONTINUE;
            END IF;
        END IF;
        v_rest := {schema}.route(l.id, v_keyed, v_most);
        IF v_rest THEN
            v_more := true;
            v_choice := true;
            IF l.id < 0 THEN v_unread := v_unread || l.id; END IF;
            -- Where all that is quiet was found nothing has to be waited for.
            IF (v_serial OR l.id < 0 OR NOT {schema}.look_ahead(l.id, v_keyed, v_page)) AND NOT v_quick THEN v_behind := v_behind || v_keyed; END IF;
        ELSIF v_ahead.keys IS NOT NULL THEN
            PERFORM {schema}.end_lookahead(l.id);
        END IF;
    END LOOP;
    -- Where order does not matter a lane that handed out nothing for a second does so all the same: else jobs that come faster than they are moved would stop it.
    IF v_behind <> '{}' AND NOT v_serial THEN
        v_behind := ARRAY(SELECT b FROM unnest(v_behind) AS b WHERE NOT {schema}.key_idle_for(b, '1 second'));
    END IF;
    IF v_left > 0 AND v_serial AND EXISTS (SELECT 1 FROM {schema}.lane x JOIN {schema}.key_signal s ON s.lane_id = x.id WHERE x.queue = p_name AND x.id < 0)
       AND {schema}.make_room(p_name, v_page) THEN -- what was told meanwhile
        v_more := true;
        v_left := 0;
    END IF;
    -- One claim in 16 serves, for a sixteenth of what it may have, the lane that has waited longest while better ones were served: as lanes_with_work does.
    FOR l IN
        SELECT x.id, x.priority, greatest(p_limit / 16, 1) AS most FROM {schema}.lane x
        WHERE v_left > 0 AND v_look AND x.queue = p_name AND x.id < 0 AND x.id <> ALL (v_behind || v_taken) AND {schema}.key_idle_for(x.id, '10 seconds')
          AND EXISTS (SELECT 1 FROM {schema}.lane o WHERE o.queue = p_name AND o.id < 0 AND o.priority < x.priority)
        UNION ALL
        (SELECT x.id, x.priority, p_limit FROM {schema}.lane x WHERE v_left > 0 AND x.queue = p_name AND x.id < 0 AND x.id <> ALL (v_behind || v_taken) ORDER BY x.priority, x.id)
    LOOP
        CONTINUE WHEN v_left <= 0 OR l.priority > v_next.priority AND l.most = p_limit;
        RETURN QUERY SELECT * FROM {schema}.claim_keyed(p_worker, l.id, least(v_left, l.most), p_bytes, p_kinds, p_call, p_queue, l.priority, p_name);
        v_left := v_left - current_setting('windlass.keyed')::integer;
        v_more := v_more OR current_setting('windlass.keyed_more') = 'true';
        p_bytes := p_bytes - current_setting('windlass.keyed_bytes')::bigint;
        EXIT WHEN p_bytes <= 0;
    END LOOP;
    IF v_next.id IS NOT NULL AND v_left > 0 AND p_bytes > 0 THEN
        v_keyed := {schema}.keyed_lane(p_name, v_next.priority);
        IF NOT {schema}.key_ready({schema}.key_lane_of(v_keyed)) THEN
            RETURN QUERY SELECT * FROM {schema}.claim_straight(p_worker, v_next.id, v_keyed, v_left, p_bytes, true, p_call, p_queue, v_next.priority, p_name);
            IF current_setting('windlass.keyed_rest') = '' THEN PERFORM {schema}.end_lookahead(v_next.id);
            ELSIF current_setting('windlass.keyed_rest') = 'route' THEN PERFORM {schema}.route(v_next.id, v_keyed, greatest(v_left / 2, 1)); END IF;
        END IF;
    END IF;
    PERFORM set_config('windlass.wakeup', v_wakeup, true), set_config('windlass.keyed_claim', '', true);
    IF v_more OR v_others THEN
        -- 1: as in claim, somebody has it for longer than claims do.
        RETURN QUERY SELECT ARRAY[0, CASE WHEN v_more OR {schema}.claimed_lately(p_name) THEN 0 ELSE 1 END, 0, 0, 0, 0]::bigint[], NULL::xid8, NULL::bigint, NULL::smallint, NULL::smallint, NULL::smallint,
                            NULL::timestamptz, NULL::text, NULL::json, NULL::text;
    END IF;
    IF v_rates THEN v_due := {schema}.key_due(p_name); END IF;
    IF v_due IS NOT NULL THEN
        RETURN QUERY SELECT ARRAY[-2147483648, greatest(ceil(extract(epoch FROM v_due - clock_timestamp()) * 1000), 0)::bigint, 0, 0, p_queue, 0]::bigint[], NULL::xid8,
                            NULL::bigint, NULL::smallint, NULL::smallint, NULL::smallint, NULL::timestamptz, NULL::text, NULL::json, NULL::text;
    END IF;
END $$;
