-- What happens to jobs of keyed queues outside of claims.

-- wake_queue(queue): tells the idle workers of a queue, as wake does.
CREATE OR REPLACE FUNCTION {schema}.wake_queue(p_queue text) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF current_setting('windlass.wakeup', true) IS DISTINCT FROM 'off'
       AND NOT (pg_try_advisory_lock(hashtext({idle}), 1 + (hashtext(p_queue) & 31))
                AND pg_advisory_unlock(hashtext({idle}), 1 + (hashtext(p_queue) & 31))) THEN
        PERFORM pg_notify({name}, p_queue);
    END IF;
END $$;

-- key_freed(): where jobs of a keyed lane were settled, idle workers of the queue are told, if its keys have a concurrency or a rate. Only rows of keyed lanes pay for it.
CREATE OR REPLACE FUNCTION {schema}.key_freed() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_queue text;
BEGIN
    IF current_setting('windlass.wakeup', true) IS DISTINCT FROM 'off' THEN
        v_queue := (SELECT l.queue FROM {schema}.lane l WHERE l.id = NEW.lane_id);
        IF {schema}.keys_are_limited(v_queue) THEN PERFORM {schema}.wake_queue(v_queue); END IF;
    END IF;
    RETURN NULL;
END $$;

-- tell_key(job, lane, attributes, over): of a serial key claims have to look whether this job, which was in this lane, is over; `over`: it is, whatever they find.
CREATE OR REPLACE FUNCTION {schema}.tell_key(p_id bigint, p_lane integer, p_attributes text, p_over boolean) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_queue text := (SELECT l.queue FROM {schema}.lane l WHERE l.id = p_lane);
    v_key   text := {schema}.key_of(p_attributes);
BEGIN
    IF {schema}.key_is_serial(v_queue, v_key) THEN
        INSERT INTO {schema}.key_signal (lane_id, job_id, is_over, key)
            SELECT k.id, p_id, p_over, v_key FROM {schema}.lane k WHERE k.queue = v_queue AND k.id < 0 ORDER BY k.idle_since DESC NULLS FIRST LIMIT 1; -- not one that is about to go
        PERFORM {schema}.wake_queue(v_queue);
    END IF;
END $$;

-- key_left(): a job that waited is elsewhere now, or another job. One that was handed out before may be in a lane that is not keyed: where it was edited or replaced.
CREATE OR REPLACE FUNCTION {schema}.key_left() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off
AS $$
BEGIN
    IF OLD.lane_id > 0 AND NOT EXISTS (
        SELECT 1 FROM {schema}.lane l JOIN {schema}.queue q ON q.name = l.queue AND q.keyed
        CROSS JOIN LATERAL (SELECT 1 FROM {schema}.key_room h WHERE h.queue = l.queue AND h.key = {schema}.key_of(OLD.attributes) AND OLD.id = ANY (h.begun) LIMIT 1) AS b
        WHERE l.id = OLD.lane_id) THEN
        RETURN NULL;
    END IF;
    PERFORM {schema}.tell_key(OLD.id, OLD.lane_id, OLD.attributes, TG_OP = 'UPDATE' AND (
        {schema}.key_of(OLD.attributes) <> {schema}.key_of(NEW.attributes)
        OR (SELECT count(DISTINCT l.queue) FROM {schema}.lane l WHERE l.id IN (OLD.lane_id, NEW.lane_id)) > 1));
    RETURN NULL;
END $$;

DO $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_trigger WHERE tgname = 'key_freed' AND tgrelid = '{schema}.settlement'::regclass) THEN
        CREATE TRIGGER key_freed AFTER INSERT ON {schema}.settlement FOR EACH ROW WHEN (NEW.lane_id < 0) EXECUTE FUNCTION {schema}.key_freed();
        -- Not for what claims hand out.
        CREATE TRIGGER key_left AFTER DELETE ON {schema}.waiting FOR EACH ROW
            WHEN (OLD.lane_id < 0 AND OLD.attributes <> '' AND pg_catalog.current_setting('windlass.keyed_claim', true) IS DISTINCT FROM 'on')
            EXECUTE FUNCTION {schema}.key_left();
        CREATE TRIGGER key_changed AFTER UPDATE OF lane_id, attributes ON {schema}.waiting FOR EACH ROW
            WHEN (OLD.lane_id < 0 AND OLD.attributes <> '' AND (OLD.lane_id <> NEW.lane_id OR OLD.attributes <> NEW.attributes))
            EXECUTE FUNCTION {schema}.key_left();
    END IF;
    IF NOT EXISTS (SELECT 1 FROM pg_trigger WHERE tgname = 'key_left_elsewhere' AND tgrelid = '{schema}.waiting'::regclass) THEN
        CREATE TRIGGER key_left_elsewhere AFTER DELETE ON {schema}.waiting FOR EACH ROW
            WHEN (OLD.lane_id > 0 AND pg_catalog.strpos(OLD.attributes, '"key"') > 0) EXECUTE FUNCTION {schema}.key_left();
        CREATE TRIGGER key_changed_elsewhere AFTER UPDATE OF lane_id, attributes ON {schema}.waiting FOR EACH ROW
            WHEN (OLD.lane_id > 0 AND pg_catalog.strpos(OLD.attributes, '"key"') > 0 AND (OLD.lane_id <> NEW.lane_id OR OLD.attributes <> NEW.attributes))
            EXECUTE FUNCTION {schema}.key_left();
    END IF;
END $$;
