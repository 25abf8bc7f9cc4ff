-- Declaring schedules, removing and pausing them. Workers are told at commit by a notification with the payload '@'.

-- schedules_changed(): tells who leads. A program that knows no schedules takes the payload for a queue that it does not have.
CREATE OR REPLACE FUNCTION {schema}.schedules_changed() RETURNS void LANGUAGE sql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT pg_notify({name}, '@') WHERE current_setting('windlass.wakeup', true) IS DISTINCT FROM 'off'
$$;

-- put_schedules(names, sources, definitions, prune): declares checked schedules, of different names: 'created', 'changed' or 'unchanged' for each, in order;
-- and removes those of the source prune that are not among them: their names. What is there as declared is not written.
-- Rows are locked in the order of their names, as everywhere, all before the first is written; new ones are made under one lock, so that instances that start at once do not
-- wait for each other in a circle.
CREATE OR REPLACE FUNCTION {schema}.put_schedules(
    p_names text[], p_sources text[], p_definitions text[], p_prune text, OUT puts text[], OUT pruned text[])
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
    r     record;
    v_now timestamptz;
BEGIN
    puts := array_fill('unchanged'::text, ARRAY[coalesce(cardinality(p_names), 0)]);
    pruned := '{}';
    IF NOT EXISTS (SELECT 1 FROM unnest(p_names, p_sources, p_definitions) AS u(name, source, definition)
                   LEFT JOIN {schema}.schedule s ON s.name = u.name COLLATE "C"
                   WHERE s.name IS NULL OR s.source <> u.source COLLATE "C" OR s.definition::jsonb <> u.definition::jsonb)
       AND NOT EXISTS (SELECT 1 FROM {schema}.schedule s WHERE s.source = p_prune AND s.source <> '' AND s.name <> ALL (p_names)) THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtext({name} || '.schedules'), 0);
    PERFORM 1 FROM {schema}.schedule s WHERE s.name = ANY (p_names) OR (s.source = p_prune AND s.source <> '') ORDER BY s.name FOR UPDATE;
    v_now := clock_timestamp();
    FOR r IN SELECT u.* FROM unnest(p_names, p_sources, p_definitions) WITH ORDINALITY AS u(name, source, definition, n) LOOP
        INSERT INTO {schema}.schedule AS s (name, source, definition, decided, due_at) VALUES (r.name, r.source, r.definition::json, v_now, v_now)
            ON CONFLICT (name) DO NOTHING;
        IF FOUND THEN
            puts[r.n] := 'created';
            CONTINUE;
        END IF;
        UPDATE {schema}.schedule s SET source = r.source, definition = r.definition::json, error = NULL, declared_at = v_now,
            version = nextval('{schema}.schedule_version'),
            decided = CASE WHEN t.same THEN s.decided ELSE greatest(s.decided, v_now) END,
            next_tick = CASE WHEN t.same THEN s.next_tick END,
            due_at = CASE WHEN NOT s.paused THEN v_now END
        FROM (SELECT old.name, NOT EXISTS (SELECT 1 FROM unnest(ARRAY['cron', 'zone', 'starts_at', 'ends_at']) AS field
                                           WHERE old.definition ->> field IS DISTINCT FROM r.definition::json ->> field) AS same
              FROM {schema}.schedule old WHERE old.name = r.name) AS t
        WHERE s.name = t.name AND (s.source <> r.source OR s.definition::jsonb <> r.definition::jsonb);
        IF FOUND THEN puts[r.n] := 'changed'; END IF;
    END LOOP;
    WITH removed AS (
        DELETE FROM {schema}.schedule s WHERE s.source = p_prune AND s.source <> '' AND s.name <> ALL (p_names) RETURNING s.name
    )
    SELECT coalesce(array_agg(x.name::text ORDER BY x.name), '{}') INTO pruned FROM removed x;
    PERFORM {schema}.schedules_changed();
    PERFORM {schema}.acted('schedules.put', u.name) FROM unnest(p_names, puts) AS u(name, put) WHERE u.put <> 'unchanged';
    PERFORM {schema}.acted('schedules.remove', u.name) FROM unnest(pruned) AS u(name);
END $$;

-- remove_schedules(names): which of them there were, in order. Jobs that they enqueued stay.
CREATE OR REPLACE FUNCTION {schema}.remove_schedules(p_names text[]) RETURNS boolean[]
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off
AS $$
DECLARE
    v_removed text[];
BEGIN
    PERFORM 1 FROM {schema}.schedule s WHERE s.name = ANY (p_names) ORDER BY s.name FOR UPDATE;
    WITH removed AS (DELETE FROM {schema}.schedule s WHERE s.name = ANY (p_names) RETURNING s.name)
    SELECT coalesce(array_agg(x.name::text), '{}') INTO v_removed FROM removed x;
    IF v_removed <> '{}' THEN PERFORM {schema}.schedules_changed(); END IF;
    PERFORM {schema}.acted('schedules.remove', u.name) FROM unnest(v_removed) AS u(name);
    RETURN ARRAY(SELECT u.name = ANY (v_removed) AND array_position(p_names, u.name) = u.n
                 FROM unnest(p_names) WITH ORDINALITY AS u(name, n) ORDER BY u.n);
END $$;

-- pause_schedules(names, paused): which of them there are, in order. One that goes on does so with the next tick from now on.
CREATE OR REPLACE FUNCTION {schema}.pause_schedules(p_names text[], p_paused boolean) RETURNS boolean[]
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off
AS $$
DECLARE
    v_found text[];
    v_now   timestamptz;
BEGIN
    WITH found AS MATERIALIZED (SELECT s.name FROM {schema}.schedule s WHERE s.name = ANY (p_names) ORDER BY s.name FOR UPDATE)
    SELECT coalesce(array_agg(x.name::text), '{}') INTO v_found FROM found x;
    v_now := clock_timestamp();
    UPDATE {schema}.schedule s SET paused = p_paused, version = nextval('{schema}.schedule_version'), next_tick = NULL, queued_tick = NULL,
        due_at = CASE WHEN NOT p_paused THEN v_now END,
        decided = CASE WHEN p_paused THEN s.decided ELSE greatest(s.decided, v_now) END
    WHERE s.name = ANY (v_found) AND s.paused <> p_paused;
    IF FOUND THEN PERFORM {schema}.schedules_changed(); END IF;
    PERFORM {schema}.acted(CASE WHEN p_paused THEN 'schedules.pause' ELSE 'schedules.resume' END, u.name) FROM unnest(v_found) AS u(name);
    RETURN ARRAY(SELECT u.name = ANY (v_found) FROM unnest(p_names) WITH ORDINALITY AS u(name, n) ORDER BY u.n);
END $$;
