-- Lanes and queues that nobody uses any more.
--
-- A writer may remember a lane's id, so a lane cannot simply go: a job of a lane that is not there is never
-- claimed. In three steps, each of them taken back when a job of the lane turns up:
--   idle     no job of it is stored anywhere. lane_of still answers it; writers forget an id within a minute.
--   retired  idle for a day: lane_of has passed it over for long. Claims still read it.
--   removed  a day later, when every transaction that was open when it was retired has ended, under the lane's lock
--            and proof that it is still empty.
-- A job that comes even later (a process that was stopped between two instructions for a day) is found when its
-- segment is emptied: see adopt_lanes.

-- used_lanes(lanes): those that have a job, in the log or outside; and keyed ones of which the next claim has something to learn: what was held there and is not any more, and what somebody
-- did to a job of a serial key. With the lane it would be lost, and the key would count that job for ever.
-- Cost: one index probe for each lane; reads all waiting and dead jobs when any of them has none in the log.
CREATE OR REPLACE FUNCTION {schema}.used_lanes(p_lanes integer[]) RETURNS integer[]
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
DECLARE
    v_used integer[];
    v_rest integer[];
BEGIN
    v_used := ARRAY(SELECT l FROM unnest(p_lanes) AS l WHERE (SELECT j.lane_id FROM {schema}.job j WHERE j.lane_id = l LIMIT 1) IS NOT NULL);
    v_rest := ARRAY(SELECT l FROM unnest(p_lanes) AS l EXCEPT SELECT unnest(v_used));
    IF cardinality(v_rest) = 0 THEN RETURN v_used; END IF;
    RETURN v_used || ARRAY(SELECT w.lane_id FROM {schema}.waiting w WHERE w.lane_id = ANY (v_rest)
                           UNION SELECT d.lane_id FROM {schema}.dead d WHERE d.lane_id = ANY (v_rest)
                           UNION SELECT s.lane_id FROM {schema}.cancelled_in_log s WHERE s.lane_id = ANY (v_rest)
                           UNION SELECT h.lane_id FROM {schema}.key_held h WHERE h.lane_id = ANY (v_rest)
                           UNION SELECT t.lane_id FROM {schema}.key_signal t WHERE t.lane_id = ANY (v_rest));
END $$;

-- forget_lanes(most): one look at all lanes, every six hours; removes at most so many lanes, and no more than 500, because each takes a place in the
-- server's table of locks (of some 7,000 by default); and the queues that have none left, unless they are paused, young or named by a live worker.
-- Returns how many lanes were removed.
CREATE OR REPLACE FUNCTION {schema}.forget_lanes(p_most integer) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
DECLARE
    v_now   timestamptz := clock_timestamp();
    v_most  integer := least(p_most, 500);
    v_lanes integer[];
    v_used  integer[];
    v_count bigint;
BEGIN
    -- In the future: the clock was set back since.
    PERFORM 1 FROM {schema}.housekeeping WHERE lanes_checked_at NOT BETWEEN v_now - interval '6 hours' AND v_now FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN RETURN 0; END IF;
    v_lanes := ARRAY(SELECT id FROM {schema}.lane ORDER BY id);
    v_used := {schema}.used_lanes(v_lanes);
    UPDATE {schema}.lane SET idle_since = NULL, retired_xid = NULL WHERE id = ANY (v_used) AND idle_since IS NOT NULL;
    UPDATE {schema}.lane SET idle_since = v_now WHERE id = ANY (v_lanes) AND NOT id = ANY (v_used) AND idle_since IS NULL;
    -- An hour after lane_of first passed it over, and so long after writers forgot it.
    UPDATE {schema}.lane SET retired_xid = pg_snapshot_xmax(pg_current_snapshot())
        WHERE idle_since < v_now - interval '25 hours' AND retired_xid IS NULL;

    -- Nobody claims, cancels or moves a job of a lane under its lock. Then a new look, at what committed before.
    v_lanes := ARRAY(
        SELECT id FROM (SELECT l.id FROM {schema}.lane l
                        WHERE l.idle_since < v_now - interval '2 days' AND l.retired_xid <= pg_snapshot_xmin(pg_current_snapshot())
                        ORDER BY l.id LIMIT v_most) AS old
        WHERE pg_try_advisory_xact_lock(hashtext({name} || '.lane'), old.id));
    IF cardinality(v_lanes) > 0 THEN
        v_used := {schema}.used_lanes(v_lanes);
        DELETE FROM {schema}.lane WHERE id = ANY (v_lanes) AND NOT id = ANY (v_used)
            AND NOT EXISTS (SELECT 1 FROM {schema}.event e WHERE e.lane_id = lane.id);
    END IF;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    IF cardinality(v_lanes) = 0 THEN v_count := 0; END IF;
    -- One that somebody has locked, as who limits it in a transaction that stays open, is not waited for.
    DELETE FROM {schema}.queue d WHERE d.name = ANY (ARRAY(SELECT q.name FROM {schema}.queue q
        WHERE q.paused_at IS NULL AND q.created_at < v_now - interval '1 day' -- and its limits stay, whether there are jobs or not
          AND q.concurrency IS NULL AND q.rate IS NULL AND NOT q.keyed
          AND NOT EXISTS (SELECT 1 FROM {schema}.key_limit k WHERE k.queue = q.name)
          AND NOT EXISTS (SELECT 1 FROM {schema}.lane l WHERE l.queue = q.name)
          AND NOT EXISTS (SELECT 1 FROM {schema}.worker w WHERE w.ended_at IS NULL AND q.name = ANY (w.queues)) FOR UPDATE SKIP LOCKED));
    -- Where more are left, the next call goes on.
    IF v_count < v_most THEN UPDATE {schema}.housekeeping SET lanes_checked_at = v_now; END IF;
    RETURN v_count;
END $$;
