-- Lanes: one queue at one priority each, and the wake-up of workers that wait for them.

-- check_queue(queue): refuses what cannot be the name of one.
CREATE OR REPLACE FUNCTION {schema}.check_queue(p_queue text) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF p_queue IS NULL OR p_queue !~ '^[A-Za-z0-9_.:/-]{1,128}$' THEN
        RAISE 'invalid queue name %; use 1 to 128 of letters, digits and _ - . : /', coalesce(quote_literal(left(p_queue, 64)), 'NULL')
            USING ERRCODE = 'WL002';
    END IF;
    IF p_queue IN ('.', '..') THEN
        RAISE 'invalid queue name %; browsers and proxies take it out of a path, so no page could show it; use another', quote_literal(p_queue)
            USING ERRCODE = 'WL002';
    END IF;
END $$;

-- check_lane(queue, priority): refuses what no lane can have.
CREATE OR REPLACE FUNCTION {schema}.check_lane(p_queue text, p_priority integer) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM {schema}.check_queue(p_queue);
    IF p_priority IS NULL OR p_priority NOT BETWEEN -100 AND 100 THEN
        RAISE 'priority must be -100 to 100, got %', coalesce(p_priority::text, 'NULL') USING ERRCODE = 'WL003';
    END IF;
END $$;

-- lane_of(queue, priority): the lane's id; makes it on first use. Never waits for another transaction.
-- A lane that was idle for a day is passed over: forget_lanes is about to remove it. So are keyed lanes, which have negative ids.
CREATE OR REPLACE FUNCTION {schema}.lane_of(p_queue text, p_priority integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_lane integer;
BEGIN
    SELECT l.id INTO v_lane FROM {schema}.lane l WHERE l.queue = p_queue AND l.priority = p_priority AND l.id > 0
        AND (l.idle_since IS NULL OR l.idle_since > clock_timestamp() - interval '1 day') ORDER BY l.id LIMIT 1;
    IF FOUND THEN RETURN v_lane; END IF;
    PERFORM {schema}.check_lane(p_queue, p_priority);
    INSERT INTO {schema}.lane (queue, priority) VALUES (p_queue, p_priority) RETURNING id INTO v_lane;
    RETURN v_lane;
END $$;

-- wake(): after a statement that appended jobs. Notifies only when some worker is idle, because NOTIFY
-- takes a lock of the whole cluster at commit (20k -> 4.9k inserts/s when every insert notifies). The payload
-- is the queue; empty: perhaps any.
-- An idle worker holds flags in shared mode on its LISTEN connection: number 0, and for each of its queues one
-- of 1 to 32, by the hash of the queue's name. Flags are memory only and vanish with the worker.
-- A statement that knows its queues says so by the setting windlass.queues (names, with commas between), for
-- this one trigger; the flags of other queues are not looked at then. Whoever writes without it asks flag 0.
-- Where the setting windlass.wakeup is off, nobody is woken and polling finds the jobs: PREPARE TRANSACTION refuses a
-- transaction that has notified.
-- Runs once per enqueue, so it names everything in full instead of paying for SET search_path. Lock and unlock are one
-- expression: nothing can interrupt between them and leave the lock to the session.
CREATE OR REPLACE FUNCTION {schema}.wake() RETURNS trigger LANGUAGE plpgsql
AS $$
DECLARE
    v_queues text := pg_catalog.current_setting('windlass.queues', true);
    v_queue  text;
BEGIN
    IF v_queues <> '' THEN
        v_queue := pg_catalog.set_config('windlass.queues', '', true);
        FOREACH v_queue IN ARRAY pg_catalog.string_to_array(v_queues, ',') LOOP
            IF NOT (pg_catalog.pg_try_advisory_lock(pg_catalog.hashtext({idle}), 1 + (pg_catalog.hashtext(v_queue) & 31))
                    AND pg_catalog.pg_advisory_unlock(pg_catalog.hashtext({idle}), 1 + (pg_catalog.hashtext(v_queue) & 31))) THEN
                CONTINUE WHEN pg_catalog.current_setting('windlass.wakeup', true) = 'off';
                PERFORM pg_catalog.pg_notify({name}, v_queue);
            END IF;
        END LOOP;
    ELSIF NOT (pg_catalog.pg_try_advisory_lock(pg_catalog.hashtext({idle}), 0)
               AND pg_catalog.pg_advisory_unlock(pg_catalog.hashtext({idle}), 0))
          AND pg_catalog.current_setting('windlass.wakeup', true) IS DISTINCT FROM 'off' THEN
        PERFORM pg_catalog.pg_notify({name}, '');
    END IF;
    RETURN NULL;
END $$;

DO $$
DECLARE
    v_table text;
BEGIN
    FOREACH v_table IN ARRAY ARRAY['job', 'job_0', 'job_1', 'job_2', 'job_3', 'waiting'] LOOP
        IF NOT EXISTS (SELECT 1 FROM pg_trigger WHERE tgname = 'wake' AND tgrelid = format('{schema}.%I', v_table)::regclass) THEN
            EXECUTE format('CREATE TRIGGER wake AFTER INSERT ON {schema}.%I FOR EACH STATEMENT EXECUTE FUNCTION {schema}.wake()', v_table);
        END IF;
    END LOOP;
END $$;
