-- Removing what is past retention outside the log: each call is one chunk in a short transaction of its own. It is
-- called until it answers less than was asked for.
-- Invariant: no round reads again what an earlier one decided to keep, and one that finds nothing past its time looks at the oldest row.
-- clock_timestamp() is volatile: (SELECT clock_timestamp()) bounds an index, a comparison with the function itself reads it to its end.

-- forget_dead(most): cancelled and discarded jobs, with their errors and reports. Returns how many. What ended in the future did so before the clock was set back: that counts
-- as a minute ago, before what ended since. By count it would be what is kept, for as long as the clock was ahead, and what ends from now on would go.
CREATE OR REPLACE FUNCTION {schema}.forget_dead(p_most integer) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off SET enable_sort = off
AS $$
DECLARE
    v_now   timestamptz := clock_timestamp();
    v_ids   bigint[];
    v_count bigint;
BEGIN
    UPDATE {schema}.dead d SET finished_at = v_now - interval '1 minute' WHERE d.ctid = ANY (ARRAY(
        SELECT x.ctid FROM {schema}.dead x WHERE x.finished_at > v_now + interval '1 second' ORDER BY x.finished_at LIMIT p_most FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_count = ROW_COUNT;
    IF v_count > 0 THEN UPDATE {schema}.retention_pass p SET queue = NULL WHERE p.queue IS NOT NULL; END IF; -- what is kept is found anew
    IF v_count >= p_most THEN RETURN 0; END IF; -- the next round goes on
    IF EXISTS (SELECT 1 FROM {schema}.retention_rule r WHERE r.outcome <> 'completed') THEN
        RETURN {schema}.forget_dead_by_rule(p_most);
    END IF;
    v_ids := ARRAY(
        SELECT d.id FROM {schema}.dead d
        WHERE d.finished_at < (SELECT clock_timestamp() - s.dead_retention FROM {schema}.setting s)
        ORDER BY d.finished_at LIMIT p_most FOR UPDATE SKIP LOCKED);
    PERFORM {schema}.remove_dead(v_ids);
    RETURN cardinality(v_ids);
END $$;

-- forget_errors(most): errors of jobs that completed, by the retention of those. Whether a job completed is not told
-- by any one row, and nowhere once its segment is gone: so an error goes when its job was found neither waiting nor
-- dead twice, a retention apart, and at least an hour. (A job that stood unfinished in the log all that time loses
-- the errors of its earlier attempts.) Each error is looked at once in that time. Returns how many it looked at.
CREATE OR REPLACE FUNCTION {schema}.forget_errors(p_most integer) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off
    SET enable_seqscan = off SET enable_sort = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    v_now    timestamptz := clock_timestamp();
    v_retain interval := {schema}.completed_retention();
    v_count  bigint;
BEGIN
    -- Further ahead than it is ever set: the clock was set back since.
    UPDATE {schema}.attempt_error e SET checked_at = v_now WHERE e.ctid = ANY (ARRAY(
        SELECT x.ctid FROM {schema}.attempt_error x WHERE x.checked_at > v_now + interval '1 hour'
        ORDER BY x.checked_at DESC LIMIT p_most FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_count = ROW_COUNT;
    IF v_count > 0 THEN RETURN v_count; END IF;
    WITH due AS MATERIALIZED (
        SELECT e.ctid AS place, e.job_id, e.left_over FROM {schema}.attempt_error e WHERE e.checked_at < v_now - v_retain
        ORDER BY e.checked_at LIMIT p_most FOR UPDATE SKIP LOCKED
    ), found AS MATERIALIZED (
        SELECT d.place, d.left_over, EXISTS (SELECT 1 FROM {schema}.waiting w WHERE w.id = d.job_id)
                                  OR EXISTS (SELECT 1 FROM {schema}.dead x WHERE x.id = d.job_id) AS there
        FROM due d
    ), gone AS (
        DELETE FROM {schema}.attempt_error e WHERE e.ctid = ANY (ARRAY(SELECT f.place FROM found f WHERE f.left_over AND NOT f.there))
    ), kept AS (
        UPDATE {schema}.attempt_error e
        SET checked_at = v_now + greatest(interval '1 hour' - v_retain, '0'), left_over = NOT f.there
        FROM found f WHERE e.ctid = f.place AND (f.there OR NOT f.left_over))
    SELECT count(*) INTO v_count FROM found;
    RETURN v_count;
END $$;

-- forget_workers(most): registrations that ended. Returns how many.
CREATE OR REPLACE FUNCTION {schema}.forget_workers(p_most integer) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off SET enable_sort = off
AS $$
DECLARE
    v_ids integer[];
BEGIN
    v_ids := ARRAY(
        SELECT w.id FROM {schema}.worker w
        WHERE w.ended_at < (SELECT clock_timestamp() - greatest(s.retention, '1 hour') FROM {schema}.setting s)
        ORDER BY w.ended_at LIMIT p_most FOR UPDATE SKIP LOCKED);
    DELETE FROM {schema}.worker w WHERE w.id = ANY (v_ids);
    RETURN cardinality(v_ids);
END $$;

-- forget_keys(most): idempotency keys. Returns how many.
CREATE OR REPLACE FUNCTION {schema}.forget_keys(p_most integer) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off SET enable_sort = off
AS $$
DECLARE
    v_count bigint;
BEGIN
    DELETE FROM {schema}.enqueue_key k WHERE k.key = ANY (ARRAY(
        SELECT x.key FROM {schema}.enqueue_key x
        WHERE x.at < (SELECT clock_timestamp() - s.retention FROM {schema}.setting s)
        ORDER BY x.at LIMIT p_most FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END $$;
