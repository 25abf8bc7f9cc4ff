-- Deploys: that workers of another version of a program begin is marked in the audit log, without anybody's doing.

-- mark_deploys(): appends a mark for each worker of the last ten minutes that was the first of its version, and returns how many. It is the first where others of its
-- program registered before, none that lived then had its version, and of those that had gone the last one had another: so the first of all marks nothing, nor does a restart.
-- Once, whoever looks: looks come one after the other, and a mark that is as young as a worker is its own or of one that began beside it, as is one that names it: the clock
-- may have been set back since it registered.
-- Cost: a probe while nobody registered of late; then a pass over the workers that are kept.
CREATE OR REPLACE FUNCTION {schema}.mark_deploys() RETURNS bigint
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
DECLARE
    v_since timestamptz := clock_timestamp() - interval '10 minutes';
    v_count bigint;
BEGIN
    IF NOT EXISTS (SELECT 1 FROM {schema}.worker w WHERE w.started_at > v_since AND w.app_version IS NOT NULL) THEN RETURN 0; END IF;
    PERFORM pg_advisory_xact_lock(hashtext({name} || '.deploys'), 0);
    INSERT INTO {schema}.audit_entry (actor, via, action, target, reason, outcome)
        SELECT DISTINCT ON (d.label) 'windlass', 'worker', 'mark', d.label, format('worker %s was the first of it', d.id), 'done'
        FROM (SELECT w.id, w.started_at, w.app_version, left(concat_ws(' ', w.program, w.app_version), 100) AS label,
                     max(coalesce(w.ended_at, 'infinity')) OVER (PARTITION BY w.program ORDER BY w.started_at, w.id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS any_until,
                     max(coalesce(w.ended_at, 'infinity')) OVER (PARTITION BY w.program, w.app_version ORDER BY w.started_at, w.id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS same_until
              FROM {schema}.worker w) d
        WHERE d.started_at > v_since AND d.app_version IS NOT NULL AND d.any_until IS NOT NULL
          AND (d.same_until IS NULL OR d.same_until <= d.started_at AND d.same_until < d.any_until)
          AND NOT EXISTS (SELECT 1 FROM {schema}.audit_entry e WHERE e.target = d.label AND e.actor = 'windlass' AND e.action = 'mark'
                          AND (e.at >= d.started_at OR e.reason = format('worker %s was the first of it', d.id)))
        ORDER BY d.label, d.started_at, d.id;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END $$;
