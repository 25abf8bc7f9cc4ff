-- The audit log: who changed what. Windlass writes an entry for what the server and the command line change; programs may write their own.

-- append_audit(entries): adds the entries of a JSON array of objects {"actor", "role"?, "via"?, "action", "target", "filter"?, "reason"?, "count"?, "outcome"?,
-- "request_id"?}, all or none, and returns how many. via is 'sql' and outcome 'done' unless they say otherwise. What is too long is refused.
CREATE OR REPLACE FUNCTION {schema}.append_audit(entries json) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
DECLARE
    v_count bigint;
BEGIN
    IF json_typeof($1) IS DISTINCT FROM 'array' OR json_array_length($1) > 1000 THEN
        RAISE 'audit entries are given as a JSON array of at most 1000 objects' USING ERRCODE = 'WL003';
    END IF;
    IF EXISTS (SELECT 1 FROM json_array_elements($1) AS e(entry) WHERE json_typeof(e.entry) <> 'object') THEN
        RAISE 'each audit entry must be a JSON object' USING ERRCODE = 'WL003';
    END IF;
    IF EXISTS (SELECT 1 FROM json_to_recordset($1) AS e(actor text, action text, target text)
               WHERE coalesce(e.actor, '') = '' OR coalesce(e.action, '') = '' OR e.target IS NULL) THEN
        RAISE 'an audit entry names its actor, action and target' USING ERRCODE = 'WL003';
    END IF;
    IF EXISTS (SELECT 1 FROM json_to_recordset($1) AS e(
                   actor text, role text, via text, action text, target text, filter json, reason text, outcome text, request_id text)
               WHERE greatest(octet_length(e.actor), octet_length(e.role), octet_length(e.via), octet_length(e.action),
                              octet_length(e.outcome), octet_length(e.request_id)) > 200
                  OR octet_length(e.target) > 500 OR octet_length(e.reason) > 1000 OR octet_length(e.filter::text) > 4096) THEN
        RAISE 'an audit entry is too long: at most 200 bytes of actor, role, via, action, outcome and request_id, 500 of target, 1000 of reason and 4096 of filter'
            USING ERRCODE = 'WL003';
    END IF;
    INSERT INTO {schema}.audit_entry (actor, role, via, action, target, filter, reason, count, outcome, request_id)
        SELECT e.actor, e.role, coalesce(e.via, 'sql'), e.action, e.target, e.filter, e.reason, e.count, coalesce(e.outcome, 'done'), e.request_id
        FROM json_to_recordset($1) AS e(actor text, role text, via text, action text, target text, filter json, reason text, count bigint,
                                        outcome text, request_id text);
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END $$;

-- audit_page(actor, action, target, since, before_at, before_id, most): entries before this place, the newest first, of this actor, action and target and from then
-- on, where given; and as the last one, with fits false, the entry where the look ended before there were enough: if it fits, it is there a second time. It reads
-- by the index of one column.
-- Cost: the entries of the page, and at most 10,000 that one column selects and the others do not.
CREATE OR REPLACE FUNCTION {schema}.audit_page(
    p_actor text, p_action text, p_target text, p_since timestamptz, p_before_at timestamptz, p_before_id bigint, p_most integer)
    RETURNS TABLE (fits boolean, entry {schema}.audit_entry) LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET max_parallel_workers_per_gather = 0
AS $$
DECLARE
    v_by     text := CASE WHEN p_target IS NOT NULL THEN 'e.target = $1' WHEN p_actor IS NOT NULL THEN 'e.actor = $2'
                          WHEN p_action IS NOT NULL THEN 'e.action = $3' ELSE 'true' END;
    v_found  integer := 0;
    v_looked integer := 0;
BEGIN
    FOR entry IN EXECUTE format(
        'SELECT e.* FROM {schema}.audit_entry e WHERE %s AND (e.at, e.id) < ($4, $5) AND e.at >= $6 ORDER BY e.at DESC, e.id DESC LIMIT 10000', v_by)
        USING p_target, p_actor, p_action, coalesce(p_before_at, 'infinity'), coalesce(p_before_id, 9223372036854775807), coalesce(p_since, '-infinity')
    LOOP
        v_looked := v_looked + 1;
        fits := (p_target IS NULL OR entry.target = p_target) AND (p_actor IS NULL OR entry.actor = p_actor)
            AND (p_action IS NULL OR entry.action = p_action);
        v_found := v_found + fits::integer;
        IF fits THEN RETURN NEXT; END IF;
        EXIT WHEN v_found >= p_most;
        IF v_looked = 10000 THEN
            fits := false;
            RETURN NEXT;
        END IF;
    END LOOP;
END $$;

-- audit: the log as people read it, the newest first when ordered by at DESC, id DESC.
SELECT {schema}.keep_view('audit', $view$
    SELECT id, at, actor, role, via, action, target, filter, reason, count, outcome, request_id, login FROM {schema}.audit_entry$view$);

-- configure_audit(retention, most): how long entries are kept, and how many; NULL leaves a value as it is.
CREATE OR REPLACE FUNCTION {schema}.configure_audit(retention interval DEFAULT NULL, most bigint DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF extract(epoch FROM $1) NOT BETWEEN 0 AND 3162240000 THEN
        RAISE 'audit_retention must be 0 to 100 years, got %', $1 USING ERRCODE = 'WL003';
    END IF;
    IF $2 NOT BETWEEN 1 AND 1000000000 THEN
        RAISE 'the number of audit entries that are kept must be 1 to 1000000000, got %', $2 USING ERRCODE = 'WL003';
    END IF;
    UPDATE {schema}.audit_setting s SET retention = coalesce($1, s.retention), most = coalesce($2, s.most)
        WHERE (s.retention, s.most) IS DISTINCT FROM (coalesce($1, s.retention), coalesce($2, s.most));
    IF FOUND THEN PERFORM {schema}.acted('settings.put', 'settings'); END IF;
END $$;

-- forget_audit(most): entries that are too old or too many. Returns how many.
-- Cost: what it removes, and two probes.
CREATE OR REPLACE FUNCTION {schema}.forget_audit(p_most integer) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
AS $$
DECLARE
    v_set    {schema}.audit_setting;
    v_ids    bigint[];
    v_before timestamptz; -- the clock is volatile: an index serves for what it said, not for it
    v_until  bigint;
BEGIN
    SELECT * INTO v_set FROM {schema}.audit_setting;
    v_before := clock_timestamp() - v_set.retention;
    v_ids := ARRAY(
        SELECT e.id FROM {schema}.audit_entry e WHERE e.at < v_before
        ORDER BY e.at, e.id LIMIT p_most FOR UPDATE SKIP LOCKED);
    IF v_ids = '{}' THEN
        SELECT e.id - v_set.most INTO v_until FROM {schema}.audit_entry e ORDER BY e.id DESC LIMIT 1;
        v_ids := ARRAY(
            SELECT e.id FROM {schema}.audit_entry e WHERE e.id <= v_until ORDER BY e.id LIMIT p_most FOR UPDATE SKIP LOCKED);
    END IF;
    DELETE FROM {schema}.audit_entry e WHERE e.id = ANY (v_ids);
    RETURN cardinality(v_ids);
END $$;
