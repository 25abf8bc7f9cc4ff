-- What logical replication needs to carry deletes and updates of tables without a primary key. Without it PostgreSQL refuses them on the side
-- that is published, and housekeeping with them. What it takes, the whole old row for most, goes into the WAL only where wal_level is logical.
DO $$
DECLARE
    v_table text;
BEGIN
    FOREACH v_table IN ARRAY ARRAY['job', 'settlement', 'result', 'event'] LOOP
        FOR v_segment IN 0..3 LOOP
            EXECUTE format('ALTER TABLE {schema}.%I REPLICA IDENTITY FULL', v_table || '_' || v_segment);
        END LOOP;
    END LOOP;
    FOR v_segment IN 0..3 LOOP -- by its place, because snapshots have no equality
        EXECUTE format('ALTER TABLE {schema}.%I REPLICA IDENTITY USING INDEX %I', 'claim_' || v_segment, (
            SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
            WHERE i.indrelid = format('{schema}.%I', 'claim_' || v_segment)::regclass AND i.indisunique));
    END LOOP;
END $$;
ALTER TABLE {schema}.attempt_error REPLICA IDENTITY FULL;
ALTER TABLE {schema}.key_ended REPLICA IDENTITY FULL;

-- The transactions of this cluster that wrote rows of jobs which a subscription brought: see prepare_subscriber.
CREATE TABLE IF NOT EXISTS {schema}.applied (
    xid xid8 PRIMARY KEY
);
