-- keep_view(name, query): makes the view, or replaces it where it is another one. One that stays as it is is not touched: to replace it takes a lock
-- that waits for everybody who reads it, and those who come later wait behind that.
CREATE OR REPLACE FUNCTION {schema}.keep_view(p_name text, p_query text) RETURNS void
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_same boolean;
BEGIN
    IF to_regclass(format('{schema}.%I', p_name)) IS NOT NULL THEN
        EXECUTE format('CREATE VIEW {schema}.view_anew AS %s', p_query);
        v_same := pg_get_viewdef('{schema}.view_anew'::regclass) = pg_get_viewdef(format('{schema}.%I', p_name)::regclass);
        DROP VIEW {schema}.view_anew;
        IF v_same THEN RETURN; END IF;
        PERFORM {schema}.hold_views();
    END IF;
    EXECUTE format('CREATE OR REPLACE VIEW {schema}.%I AS %s', p_name, p_query);
END $$;

-- short_wait(): for how long who has locks waits for another, as lock_timeout has it: for less than deadlock_timeout, beyond which PostgreSQL may end either of the two.
CREATE OR REPLACE FUNCTION {schema}.short_wait() RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$ SELECT least(300, 1 + floor(300 * extract(epoch FROM current_setting('deadlock_timeout')::interval)))::text $$;

-- hold_views(): locks all views. Who reads one comes from it to others that it is made of, and may come to any of them in the same transaction: so
-- it gives back what it has and tries again before such a wait counts as a deadlock, which would end one of the two. The last
-- try waits. Where the migration has tables (it has a lock_timeout then) all of it gives way: whoever has a view may wait for one of those.
CREATE OR REPLACE FUNCTION {schema}.hold_views() RETURNS void
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_view  record;
    v_until timestamptz := clock_timestamp() + interval '30 seconds';
    v_short boolean := current_setting('lock_timeout') <> '0';
BEGIN
    LOOP
        BEGIN
            PERFORM set_config('lock_timeout', CASE WHEN clock_timestamp() < v_until THEN {schema}.short_wait() ELSE '0' END, true);
            FOR v_view IN SELECT c.oid::regclass AS name, c.relowner::regrole AS owner FROM pg_catalog.pg_class c
                          WHERE c.relnamespace = '{schema}'::regnamespace AND c.relkind = 'v' AND pg_has_role(c.relowner, 'USAGE') ORDER BY c.oid DESC
            LOOP
                -- Changes nothing. LOCK TABLE would lock what the view reads, too.
                EXECUTE format('ALTER VIEW %s OWNER TO %s', v_view.name, v_view.owner);
            END LOOP;
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            IF v_short THEN RAISE; END IF;
            PERFORM pg_sleep(0.01);
        END;
    END LOOP;
    PERFORM set_config('lock_timeout', CASE WHEN v_short THEN {schema}.short_wait() ELSE '0' END, true);
END $$;
