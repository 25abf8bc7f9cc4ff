-- Events that the log does not tell, and how long events are kept.

-- event_position(), event_late(): of a claim by a transaction that had an id before; see table claim. They are called by the
-- statement that writes it, so behind whatever it saw.
CREATE OR REPLACE FUNCTION {schema}.event_position() RETURNS xid8
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN greatest(pg_current_xact_id(), (pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1)::text::xid8);
END $$;

CREATE OR REPLACE FUNCTION {schema}.event_late() RETURNS bigint[]
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN ARRAY[pg_current_xact_id()::text::bigint, nextval('{schema}.event_seq')];
END $$;

-- note_event(event, id, lane, attempt, kind, reason): what somebody did to one job.
CREATE OR REPLACE FUNCTION {schema}.note_event(
    p_event text, p_id bigint, p_lane integer, p_attempt smallint, p_kind text, p_reason text) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO {schema}.event (job_id, lane_id, attempt, segment, event, kind, reason)
        VALUES (p_id, p_lane, p_attempt, {schema}.current_segment(), p_event, p_kind, p_reason);
END $$;

-- Jobs that wait for their time are told of here, because their rows in `waiting` go when it comes. Producers write these rows
-- themselves, hence a trigger; rows that moved there are not told of. One row for all jobs of a lane and kind whose ids follow one another.
CREATE OR REPLACE FUNCTION {schema}.tell_scheduled() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
DECLARE
    v_segment smallint;
    v_xid     xid8;
    v_pos     xid8;
BEGIN
    IF NOT EXISTS (SELECT 1 FROM added w WHERE NOT w.moved) THEN RETURN NULL; END IF;
    -- The defaults of event, once: asked for each row they cost 4 of 14 us of a scheduled job (100,000 in bulk by two connections).
    v_segment := {schema}.current_segment();
    v_xid := pg_current_xact_id();
    v_pos := {schema}.event_position();
    INSERT INTO {schema}.event (event_pos, event_xid, job_id, last_id, at, lane_id, attempt, segment, event, kind)
        SELECT v_pos, v_xid, min(w.id), nullif(max(w.id), min(w.id)), w.enqueued_at, w.lane_id, 0, v_segment, 'enqueued', w.kind
        FROM (SELECT w.id, w.enqueued_at, w.lane_id, w.kind, w.id - row_number() OVER (PARTITION BY w.lane_id, w.kind, w.enqueued_at ORDER BY w.id) AS run
              FROM added w WHERE NOT w.moved) AS w
        GROUP BY w.lane_id, w.kind, w.enqueued_at, w.run ORDER BY 3;
    RETURN NULL;
END $$;

-- Every row in `dead` is an end of a job, whoever writes it.
CREATE OR REPLACE FUNCTION {schema}.tell_dead() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
DECLARE
    v_segment smallint := {schema}.current_segment();
    v_xid     xid8 := pg_current_xact_id();
    v_pos     xid8 := {schema}.event_position();
BEGIN
    INSERT INTO {schema}.event (event_pos, event_xid, job_id, at, lane_id, attempt, segment, event, kind, reason)
        SELECT v_pos, v_xid, d.id, d.finished_at, d.lane_id, d.attempt, v_segment, d.state, d.kind, d.reason FROM added d;
    RETURN NULL;
END $$;

DO $$
DECLARE
    t record;
BEGIN
    FOR t IN SELECT * FROM (VALUES ('waiting', 'tell_scheduled'), ('dead', 'tell_dead')) AS v(name, function) LOOP
        IF NOT EXISTS (SELECT 1 FROM pg_trigger WHERE tgname = 'tell' AND tgrelid = format('{schema}.%I', t.name)::regclass) THEN
            EXECUTE format('CREATE TRIGGER tell AFTER INSERT ON {schema}.%I REFERENCING NEW TABLE AS added '
                           'FOR EACH STATEMENT EXECUTE FUNCTION {schema}.%I()', t.name, t.function);
        END IF;
    END LOOP;
END $$;

-- forget_events(xid): whatever happened up to this transaction may be removed, or can no longer be told, from now on.
-- In the transaction that removes it, or before. One that is still open does not count: it has written nothing there.
CREATE OR REPLACE FUNCTION {schema}.forget_events(p_xid xid8) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_last bigint := p_xid::text::bigint;
    v_now  pg_snapshot := pg_current_snapshot();
    v_kept pg_snapshot := (SELECT e.kept_from FROM {schema}.event_log e FOR UPDATE);
    v_max  bigint := greatest(v_last + 1, pg_snapshot_xmax(v_kept)::text::bigint);
    v_open bigint[];
BEGIN
    IF p_xid IS NULL THEN RETURN; END IF;
    v_open := ARRAY(
        SELECT x::text::bigint FROM pg_snapshot_xip(v_kept) AS x WHERE x > p_xid
        UNION SELECT x::text::bigint FROM pg_snapshot_xip(v_now) AS x WHERE x <= p_xid ORDER BY 1);
    UPDATE {schema}.event_log SET kept_from = (coalesce(v_open[1], v_max) || ':' || v_max || ':' || array_to_string(v_open, ','))::pg_snapshot;
END $$;

-- newest_in_segment(segment): the newest transaction that wrote something that is there.
-- Cost: an index probe for each lane.
CREATE OR REPLACE FUNCTION {schema}.newest_in_segment(p_segment smallint) RETURNS xid8
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
    SELECT greatest(
        (SELECT c.event_pos FROM {schema}.claim c WHERE c.segment = p_segment AND c.event_pos IS NOT NULL ORDER BY c.event_pos DESC LIMIT 1),
        (SELECT s.event_xid FROM {schema}.settlement s WHERE s.segment = p_segment AND s.event_xid IS NOT NULL ORDER BY s.event_xid DESC LIMIT 1),
        (SELECT e.event_pos FROM {schema}.event e WHERE e.segment = p_segment ORDER BY e.event_pos DESC LIMIT 1),
        (SELECT j.xid FROM {schema}.segment_lanes(p_segment) AS l
         CROSS JOIN LATERAL (SELECT x.xid FROM {schema}.job x WHERE x.segment = p_segment AND x.lane_id = l AND x.xid < '{direct}'
                             ORDER BY x.xid DESC LIMIT 1) AS j
         ORDER BY j.xid DESC LIMIT 1))
$$;
