-- The cursor of events, and what callers ask for.

-- are_event_parts(phase, parts): whether they are such as events writes them: a lane, a transaction and a job; or a transaction and a number, a transaction and a
-- job or neither of these, and a count. The lane and the number may be negative. Texts that are no such numbers are refused here, or by an error of class 22.
CREATE OR REPLACE FUNCTION {schema}.are_event_parts(p_phase text, p_parts text[]) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF p_phase = 'w' AND p_parts[3] = '-' AND p_parts[4] = '-' THEN
        p_parts := p_parts[1:2] || p_parts[5:];
    END IF;
    RETURN (SELECT bool_and(p ~ '^[0-9]{1,19}$' OR n = CASE p_phase WHEN 'e' THEN 1 ELSE 2 END AND p ~ '^-[0-9]{1,19}$') AND bool_and(p::bigint IS NOT NULL)
            FROM unnest(p_parts) WITH ORDINALITY AS u(p, n))
        AND (p_phase = 'w' OR p_parts[1]::integer IS NOT NULL);
END $$;

-- event_cursor(cursor): the parts of a cursor that events gave; refuses what is none, and what does not belong to this log any more.
CREATE OR REPLACE FUNCTION {schema}.event_cursor(
    p_cursor text, OUT since pg_snapshot, OUT until pg_snapshot, OUT phase text, OUT parts text[])
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_parts text[] := string_to_array(p_cursor, '/');
    v_log   {schema}.event_log := (SELECT e FROM {schema}.event_log e);
    v_line  text := {schema}.event_timeline();
BEGIN
    phase := 'n';
    IF p_cursor IN ('start', 'now') THEN
        since := CASE p_cursor WHEN 'start' THEN v_log.kept_from ELSE pg_current_snapshot() END;
        RETURN;
    END IF;
    BEGIN
        -- 2: within the batch of a reader that began with start.
        IF v_parts[1] IS NULL OR v_parts[1] NOT IN ('1', '2') OR cardinality(v_parts) NOT IN (4, 9, 11) THEN RAISE data_exception; END IF;
        since := v_parts[4]::pg_snapshot;
        IF cardinality(v_parts) > 4 THEN
            until := v_parts[5]::pg_snapshot;
            phase := v_parts[6];
            parts := v_parts[7:];
            IF phase || cardinality(parts) NOT IN ('e3', 'w5') OR NOT {schema}.are_event_parts(phase, parts) THEN RAISE data_exception; END IF;
        END IF;
    EXCEPTION WHEN data_exception THEN
        RAISE 'events cannot be read from %; pass start, now, or a cursor as events gave it', coalesce(quote_literal(left(p_cursor, 80)), 'NULL')
            USING ERRCODE = 'WL003';
    END;
    IF v_parts[2] <> v_log.log THEN
        RAISE 'the cursor is of another log: the database was restored into another cluster since; read on from start or from now'
            USING ERRCODE = 'WL008';
    END IF;
    IF v_parts[3] <> v_line OR pg_snapshot_xmax(since) > pg_snapshot_xmax(pg_current_snapshot())
       OR pg_snapshot_xmax(until) > pg_snapshot_xmax(pg_current_snapshot()) THEN
        RAISE 'the cursor is of another timeline of the database (a failover or a recovery to a point in time): what was committed last there may be missing here; read on from start or from now'
            USING ERRCODE = 'WL008';
    END IF;
END $$;

-- without_ended(from, to): the snapshot `from`, but that transactions that were open then, and had ended in `to`, count as seen: they wrote
-- nothing that happened. So what was open when something happened last is no reason to think that a reader missed something. The ids below
-- xmax are those of a batch that was begun before, so a crash gives none of them to others.
CREATE OR REPLACE FUNCTION {schema}.without_ended(p_from pg_snapshot, p_to pg_snapshot) RETURNS pg_snapshot
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_open bigint[] := ARRAY(
        SELECT x::text::bigint FROM pg_snapshot_xip(p_from) AS x WHERE NOT pg_visible_in_snapshot(x, p_to) ORDER BY 1);
BEGIN
    RETURN (coalesce(v_open[1]::text, pg_snapshot_xmax(p_from)::text) || ':' || pg_snapshot_xmax(p_from) || ':'
            || array_to_string(v_open, ','))::pg_snapshot;
END $$;

-- event_timeline(): of the server, as its files are named. A standby does not tell: refused as whatever else it cannot do.
CREATE OR REPLACE FUNCTION {schema}.event_timeline() RETURNS text
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF pg_is_in_recovery() THEN
        RAISE 'cannot read events or work jobs where the server is in recovery' USING ERRCODE = 'read_only_sql_transaction';
    END IF;
    RETURN left(pg_walfile_name(pg_current_wal_insert_lsn()), 8);
END $$;

-- check_event_filter(max, types): refuses what is beyond the limits, or unknown.
CREATE OR REPLACE FUNCTION {schema}.check_event_filter(p_max integer, p_types text[]) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_known   text[] := '{enqueued,started,completed,failed,retried,snoozed,cancelled,discarded,rescued,returned,deleted}';
    v_unknown text;
BEGIN
    IF p_max IS NULL OR p_max NOT BETWEEN 1 AND 100000 THEN
        RAISE 'a page has 1 to 100000 events, got %', coalesce(p_max::text, 'NULL') USING ERRCODE = 'WL003';
    END IF;
    SELECT t INTO v_unknown FROM unnest(p_types) AS t WHERE t IS NULL OR t <> ALL (v_known) LIMIT 1;
    IF FOUND THEN
        RAISE 'unknown event %; known are %', coalesce(quote_literal(v_unknown), 'NULL'), array_to_string(v_known, ', ') USING ERRCODE = 'WL003';
    END IF;
END $$;
