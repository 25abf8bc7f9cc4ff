-- configure(retention, dead_retention, segment_bytes, max_crashes): changes the policy of the store, for every worker
-- on it; NULL leaves a value as it is.
CREATE OR REPLACE FUNCTION {schema}.configure(
    retention interval DEFAULT NULL, dead_retention interval DEFAULT NULL, segment_bytes bigint DEFAULT NULL,
    max_crashes integer DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF extract(epoch FROM $1) NOT BETWEEN 0 AND 3162240000 OR extract(epoch FROM $2) NOT BETWEEN 0 AND 3162240000 THEN
        RAISE 'retention and dead_retention must be 0 to 100 years, got % and %', $1, $2 USING ERRCODE = 'WL003';
    END IF;
    IF $3 < 1 THEN
        RAISE 'segment_bytes must be at least 1, got %', $3 USING ERRCODE = 'WL003';
    END IF;
    IF $4 < 3 THEN
        RAISE 'max_crashes must be at least 3, got %: only a job that ran alone is to blame', $4 USING ERRCODE = 'WL003';
    END IF;
    IF $4 > 32767 THEN
        RAISE 'max_crashes must be at most 32767, got %', $4 USING ERRCODE = 'WL003';
    END IF;
    UPDATE {schema}.setting s SET
        retention = coalesce($1, s.retention), dead_retention = coalesce($2, s.dead_retention),
        segment_bytes = coalesce($3, s.segment_bytes), max_crashes = coalesce($4, s.max_crashes);
    UPDATE {schema}.retention_pass p SET queue = NULL WHERE p.queue IS NOT NULL; -- what was found by another policy is found anew
    PERFORM {schema}.acted('settings.put', 'settings');
END $$;
