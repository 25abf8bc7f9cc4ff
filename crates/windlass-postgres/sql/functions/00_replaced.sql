-- Functions whose parameters changed: their older forms go, so that a name means one function. What was granted on them is
-- granted on their successors in 99_grants.sql. Old programs find the successors: what came is last and has a default.
DO $$
DECLARE
    f record;
    v_grants text := '';
BEGIN
    FOR f IN
        SELECT p.oid::regprocedure AS name, format('{schema}.%I', p.proname) AS successor, p.proowner,
               coalesce(p.proacl, acldefault('f', p.proowner)) AS acl
        FROM unnest(ARRAY[
            '{schema}.acted(text, text, text)',
            '{schema}.attributes_of(text, jsonb, boolean)',
            '{schema}.enqueue(text, jsonb, text, integer, integer, timestamptz, text, jsonb, boolean)',
            '{schema}.list_jobs(text, text, text, bigint[], integer, integer)',
            '{schema}.list_jobs(text, text, text, bigint[], integer, integer, text)',
            '{schema}.attributes_of(text, jsonb, boolean, interval, jsonb, timestamptz, text[])',
            '{schema}.enqueue(text, jsonb, text, integer, integer, timestamptz, text, jsonb, boolean, interval, jsonb, timestamptz, text[])',
            '{schema}.enqueue_once(text, text, jsonb, text, integer, integer, timestamptz, text, jsonb, boolean)',
            '{schema}.enqueue_unique(text, jsonb, text, text[], text, text, interval, text, interval, text, integer, integer, timestamptz, text, jsonb, boolean)',
            '{schema}.set_schedule(text, text, text, jsonb, text, text, timestamptz, timestamptz, interval, text, text, integer, integer, text, jsonb, boolean, interval, jsonb, interval, text[], text)',
            '{schema}.share(integer, text[], integer[], integer[], integer[], integer)',
            '{schema}.share(integer, text[], integer[], integer[], integer[], integer, text[])',
            '{schema}.give_starts({schema}.queue, integer)',
            '{schema}.check_key_limit(text, text, integer, boolean, integer)',
            '{schema}.limit_keys(text, integer, boolean, integer)',
            '{schema}.limit_key(text, text, integer, boolean, integer)',
            '{schema}.put_key_limits(text, text[], integer[], boolean[], integer[])',
            '{schema}.key_limits(text)',
            '{schema}.route(integer, integer)',
            '{schema}.make_room(text)',
            '{schema}.begin_key_limits(text)',
            '{schema}.count_held(text)',
            '{schema}.key_limits_changed(text)',
            '{schema}.happened(pg_snapshot, pg_snapshot, xid8, bigint, xid8, bigint, bigint, integer, text[], text[])',
            '{schema}.register(text, text[], text[], double precision)',
            '{schema}.heartbeat(integer, bigint, integer[], bigint[])',
            '{schema}.begin_timeline(integer)',
            '{schema}.configure(interval, interval, bigint, smallint)', -- old programs pass a smallint, which becomes an integer
            '{schema}.promote_keys()',
            '{schema}.replace_unique(uuid, bigint, integer, text, text, smallint, text, timestamptz, interval)',
            '{schema}.edit_job(bigint, timestamptz, double precision, text, integer, integer, json)']) AS old
        JOIN pg_catalog.pg_proc p ON p.oid = to_regprocedure(old)
        -- Its result got more columns, or another type.
        WHERE NOT (p.proname = 'key_limits' AND 'rate' = ANY (p.proargnames)) AND NOT (p.proname = 'share' AND 'paused' = ANY (p.proargnames)) AND NOT (p.proname = 'begin_key_limits' AND p.prorettype = 'boolean'::regtype)
    LOOP
        v_grants := v_grants || coalesce((
            SELECT string_agg(format('GRANT EXECUTE ON FUNCTION %s TO %s%s;', f.successor, g.grantee::regrole,
                                     CASE WHEN g.is_grantable THEN ' WITH GRANT OPTION' END), ' ')
            FROM aclexplode(f.acl) g WHERE g.grantee NOT IN (0, f.proowner)), '');
        EXECUTE format('DROP FUNCTION %s', f.name);
    END LOOP;
    PERFORM set_config('windlass.grants', v_grants, true);
END $$;
