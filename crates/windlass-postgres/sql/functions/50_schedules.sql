-- Declaring schedules, removing and pausing them. Workers are told at commit by a notification with the payload '@'.

-- schedules_changed(): tells who leads. A program that knows no schedules takes the payload for a queue that it does not have.
CREATE OR REPLACE FUNCTION {schema}.schedules_changed() RETURNS void LANGUAGE sql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT pg_notify({name}, '@') WHERE current_setting('windlass.wakeup', true) IS DISTINCT FROM 'off'
$$;

-- put_schedules(names, sources, definitions, prune): declares checked schedules, of different names: 'created', 'changed' or 'unchanged' for each, in order;
-- and removes those of the source prune that are not among them: their names. What is there as declared is not written.
-- One after the other in the order of their names, as everywhere, each locked or made before the next: so instances that start at once do not wait for each other in a circle, and who
-- declares in a transaction that stays open keeps waiting only those who declare one of the same. Who prunes a source does so alone: of two programs that declare all of it differently what one of
-- them declared is left, not a mixture.
CREATE OR REPLACE FUNCTION {schema}.put_schedules(
    p_names text[], p_sources text[], p_definitions text[], p_prune text, OUT puts text[], OUT pruned text[])
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
    r record;
BEGIN
    puts := array_fill('unchanged'::text, ARRAY[coalesce(cardinality(p_names), 0)]);
    pruned := '{}';
    IF p_prune <> '' THEN
        IF NOT EXISTS (SELECT 1 FROM {schema}.schedules_that_differ(p_names, p_sources, p_definitions, p_prune)) THEN RETURN; END IF;
        PERFORM pg_advisory_xact_lock(hashtext({name} || '.schedules'), hashtext(p_prune));
    END IF;
    FOR r IN SELECT d.* FROM {schema}.schedules_that_differ(p_names, p_sources, p_definitions, p_prune) d ORDER BY d.name COLLATE "C"
    LOOP
        IF r.n IS NOT NULL THEN
            puts[r.n] := {schema}.put_schedule(r.name, r.source, r.definition);
            CONTINUE;
        END IF;
        DELETE FROM {schema}.schedule s WHERE s.name = r.name COLLATE "C" AND s.source = p_prune;
        IF FOUND THEN pruned := pruned || r.name; END IF;
    END LOOP;
    IF pruned = '{}' AND puts <@ ARRAY['unchanged'::text] THEN RETURN; END IF;
    PERFORM {schema}.schedules_changed();
    PERFORM {schema}.acted('schedules.put', u.name) FROM unnest(p_names, puts) AS u(name, put) WHERE u.put <> 'unchanged';
    PERFORM {schema}.acted('schedules.remove', u.name) FROM unnest(pruned) AS u(name);
END $$;

-- schedules_that_differ(names, sources, definitions, prune): those of put_schedules that are not there as declared, with their number; and those to be removed, without one.
CREATE OR REPLACE FUNCTION {schema}.schedules_that_differ(p_names text[], p_sources text[], p_definitions text[], p_prune text)
    RETURNS TABLE (name text, source text, definition json, n bigint)
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_custom_plan
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT u.name, u.source, u.definition::json, u.n FROM unnest(p_names, p_sources, p_definitions) WITH ORDINALITY AS u(name, source, definition, n)
    LEFT JOIN {schema}.schedule s ON s.name = u.name COLLATE "C"
    WHERE s.name IS NULL OR s.source <> u.source COLLATE "C" OR s.definition::jsonb <> u.definition::jsonb
    UNION ALL
    SELECT s.name::text, NULL, NULL, NULL FROM {schema}.schedule s
    WHERE s.source = p_prune AND s.source <> '' AND s.name <> ALL (coalesce(p_names, '{}'));
END $$;

-- put_schedule(name, source, definition): of put_schedules, one. Its row is locked until the caller's transaction ends, unless it is as declared by then.
CREATE OR REPLACE FUNCTION {schema}.put_schedule(p_name text, p_source text, p_definition json) RETURNS text
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off
AS $$
DECLARE
    v_old  {schema}.schedule;
    v_now  timestamptz;
    v_same boolean;
BEGIN
    LOOP
        SELECT s.* INTO v_old FROM {schema}.schedule s WHERE s.name = p_name COLLATE "C" FOR UPDATE;
        EXIT WHEN FOUND;
        v_now := clock_timestamp();
        INSERT INTO {schema}.schedule AS s (name, source, definition, decided, due_at) VALUES (p_name, p_source, p_definition, v_now, v_now)
            ON CONFLICT (name) DO NOTHING;
        IF FOUND THEN RETURN 'created'; END IF;
    END LOOP;
    IF v_old.source = p_source COLLATE "C" AND v_old.definition::jsonb = p_definition::jsonb THEN RETURN 'unchanged'; END IF;
    v_now := clock_timestamp();
    v_same := NOT EXISTS (SELECT 1 FROM unnest(ARRAY['cron', 'zone', 'starts_at', 'ends_at']) AS field
                          WHERE v_old.definition ->> field IS DISTINCT FROM p_definition ->> field);
    UPDATE {schema}.schedule s SET source = p_source, definition = p_definition, error = NULL, declared_at = v_now,
        version = nextval('{schema}.schedule_version'),
        decided = CASE WHEN v_same THEN s.decided ELSE greatest(s.decided, v_now) END,
        next_tick = CASE WHEN v_same THEN s.next_tick END,
        due_at = CASE WHEN NOT s.paused THEN v_now END
    WHERE s.name = p_name COLLATE "C";
    RETURN 'changed';
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

-- pause_schedules(names, paused): which of them there are, in order. One that goes on does so with the next tick from now on, and with the one that waited for the last job before the pause.
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
    UPDATE {schema}.schedule s SET paused = p_paused, version = nextval('{schema}.schedule_version'), next_tick = NULL,
        due_at = CASE WHEN NOT p_paused THEN v_now END,
        decided = CASE WHEN p_paused THEN s.decided ELSE greatest(s.decided, v_now) END
    WHERE s.name = ANY (v_found) AND s.paused <> p_paused;
    IF FOUND THEN PERFORM {schema}.schedules_changed(); END IF;
    PERFORM {schema}.acted(CASE WHEN p_paused THEN 'schedules.pause' ELSE 'schedules.resume' END, u.name) FROM unnest(v_found) AS u(name);
    RETURN ARRAY(SELECT u.name = ANY (v_found) FROM unnest(p_names) WITH ORDINALITY AS u(name, n) ORDER BY u.n);
END $$;
