-- The side of logical replication that receives, until programs are switched to it. How it is done: docs/guide/moving.md

-- note_applied(): that this transaction brought jobs from elsewhere. A trigger that fires for replication alone.
CREATE OR REPLACE FUNCTION {schema}.note_applied() RETURNS trigger
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_xid text := pg_current_xact_id()::text;
BEGIN
    IF current_setting('windlass.applied', true) IS DISTINCT FROM v_xid THEN
        INSERT INTO {schema}.applied VALUES (v_xid::xid8) ON CONFLICT DO NOTHING;
        PERFORM set_config('windlass.applied', v_xid, true);
    END IF;
    RETURN NULL;
END $$;

-- prepare_subscriber(on): called before CREATE SUBSCRIPTION; rehome undoes it.
-- * A row of job or result is deleted by its place: they have a json column, and json has no equality by which a whole row could be found.
--   Nobody pays for these indexes but who applies.
-- * Which transactions brought jobs is noted, because nothing in a row says so for certain: rehome takes jobs that this cluster's own
--   transactions wrote for jobs that nobody has worked.
-- * A physical copy of the other cluster has the row of table home as it stands there, which says that the log is at home. It counts as moved from now on, also where this is undone: nothing
--   says for certain that nothing was received.
-- Refused where a worker is live: this is not the side that receives.
-- Cost: the building of the indexes; nothing while the tables are empty.
CREATE OR REPLACE FUNCTION {schema}.prepare_subscriber(p_on boolean DEFAULT true) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET client_min_messages = warning
AS $$
DECLARE
    v_leaf  text;
    v_place text;
BEGIN
    IF p_on THEN
        IF EXISTS (SELECT 1 FROM {schema}.worker w WHERE w.ended_at IS NULL AND w.heartbeat_at + w.lease > clock_timestamp()) THEN
            RAISE 'workers are live here, and what they hold would run again: prepare the side that receives, and a copy of a cluster with workers when their leases are over'
                USING ERRCODE = 'WL006';
        END IF;
        UPDATE {schema}.home SET xid = '0', system = NULL;
    END IF;
    FOR v_segment IN 0..3 LOOP
        FOREACH v_leaf IN ARRAY ARRAY['job', 'result'] LOOP
            v_place := CASE v_leaf WHEN 'job' THEN 'lane_id, xid, id' ELSE 'lane_id, seq, job_id' END;
            v_leaf := v_leaf || '_' || v_segment;
            IF p_on THEN
                EXECUTE format('CREATE UNIQUE INDEX IF NOT EXISTS %1$I ON {schema}.%2$I (%3$s)', v_leaf || '_place', v_leaf, v_place);
                EXECUTE format('ALTER TABLE {schema}.%I REPLICA IDENTITY USING INDEX %I', v_leaf, v_leaf || '_place');
            ELSE
                EXECUTE format('ALTER TABLE {schema}.%I REPLICA IDENTITY FULL', v_leaf);
                EXECUTE format('DROP INDEX IF EXISTS {schema}.%I', v_leaf || '_place');
            END IF;
        END LOOP;
        v_leaf := 'job_' || v_segment;
        EXECUTE format('DROP TRIGGER IF EXISTS applied ON {schema}.%I', v_leaf);
        IF p_on THEN
            EXECUTE format('CREATE TRIGGER applied AFTER INSERT ON {schema}.%I FOR EACH ROW EXECUTE FUNCTION {schema}.note_applied()', v_leaf);
            EXECUTE format('ALTER TABLE {schema}.%I ENABLE REPLICA TRIGGER applied', v_leaf);
        END IF;
    END LOOP;
    IF NOT p_on THEN TRUNCATE {schema}.applied; END IF;
END $$;
