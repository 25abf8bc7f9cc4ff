-- Arithmetic on snapshots: the only place that knows how the cursor moves.

-- delta(from, to): the transactions visible in `to` and not in `from`, as ascending inclusive ranges.
-- First those that were open at `from` and ended since, one by one; then everything between the two
-- xmax, cut where a transaction is still open at `to` - so a scan never steps over uncommitted rows,
-- however many a bulk insert has written. Never starts from from.xmin: one old open transaction would
-- make every claim walk what was consumed.
-- Cost: linear in the open transactions, 5 us without any.
CREATE FUNCTION {schema}.delta(p_from pg_snapshot, p_to pg_snapshot, OUT lo xid8[], OUT hi xid8[])
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_next bigint := pg_snapshot_xmax(p_from)::text::bigint;
    v_end  bigint := pg_snapshot_xmax(p_to)::text::bigint;
    v_xid  bigint;
BEGIN
    lo := '{}';
    hi := '{}';
    IF pg_snapshot_xmin(p_from) <> pg_snapshot_xmax(p_from) THEN
        SELECT coalesce(array_agg(x), '{}') INTO lo
            FROM pg_snapshot_xip(p_from) AS x WHERE pg_visible_in_snapshot(x, p_to);
        hi := lo;
    END IF;
    IF pg_snapshot_xmin(p_to) <> pg_snapshot_xmax(p_to) THEN
        FOR v_xid IN SELECT x::text::bigint FROM pg_snapshot_xip(p_to) AS x LOOP
            CONTINUE WHEN v_xid < v_next;
            IF v_xid > v_next THEN
                lo := lo || v_next::text::xid8;
                hi := hi || (v_xid - 1)::text::xid8;
            END IF;
            v_next := v_xid + 1;
        END LOOP;
    END IF;
    IF v_next < v_end THEN
        lo := lo || v_next::text::xid8;
        hi := hi || (v_end - 1)::text::xid8;
    END IF;
END $$;

-- after(lo, hi, start): the same ranges from behind position (start_xid, start_id) on, as three arrays:
-- rows with (xid, id) > (lo, lo_id) and xid <= hi.
CREATE FUNCTION {schema}.after(
    p_lo xid8[], p_hi xid8[], p_xid xid8, p_id bigint, OUT lo xid8[], OUT lo_id bigint[], OUT hi xid8[])
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
    SELECT array_agg(CASE WHEN r.lo <= p_xid THEN p_xid ELSE r.lo END ORDER BY n),
           array_agg(CASE WHEN r.lo <= p_xid THEN p_id ELSE 0 END ORDER BY n),
           array_agg(r.hi ORDER BY n)
    FROM unnest(p_lo, p_hi) WITH ORDINALITY AS r(lo, hi, n)
    WHERE p_xid IS NULL OR r.hi >= p_xid
$$;

-- consumed(claim, xid, id): whether the cursor that this claim left behind has handed the row out.
CREATE FUNCTION {schema}.consumed(
    p_from pg_snapshot, p_to pg_snapshot, p_end_xid xid8, p_end_id bigint, p_xid xid8, p_id bigint)
    RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT pg_catalog.pg_visible_in_snapshot(p_xid, p_from)
        OR pg_catalog.pg_visible_in_snapshot(p_xid, p_to)
           AND (p_end_xid IS NULL OR (p_xid, p_id) <= (p_end_xid, p_end_id))
$$;

-- in_ranges(id, ranges): whether a settlement with these ranges names the job; NULL ranges name the rest.
CREATE FUNCTION {schema}.in_ranges(p_id bigint, p_ranges bigint[]) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT EXISTS (SELECT 1 FROM pg_catalog.generate_series(1, pg_catalog.cardinality(p_ranges), 2) AS i
                   WHERE p_id BETWEEN p_ranges[i] AND p_ranges[i + 1])
$$;

-- covers(outer, inner): whether every range of inner lies in one of outer.
CREATE FUNCTION {schema}.covers(p_outer bigint[], p_inner bigint[]) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT NOT EXISTS (
        SELECT 1 FROM pg_catalog.generate_series(1, pg_catalog.cardinality(p_inner), 2) AS i
        WHERE NOT EXISTS (
            SELECT 1 FROM pg_catalog.generate_series(1, pg_catalog.cardinality(p_outer), 2) AS o
            WHERE p_inner[i] >= p_outer[o] AND p_inner[i + 1] <= p_outer[o + 1]))
$$;

-- overlap(a, b): whether any id lies in both.
CREATE FUNCTION {schema}.overlap(p_a bigint[], p_b bigint[]) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT EXISTS (
        SELECT 1 FROM pg_catalog.generate_series(1, pg_catalog.cardinality(p_a), 2) AS a,
                      pg_catalog.generate_series(1, pg_catalog.cardinality(p_b), 2) AS b
        WHERE p_a[a] <= p_b[b + 1] AND p_b[b] <= p_a[a + 1])
$$;

-- without(ranges, taken): ranges minus taken.
CREATE FUNCTION {schema}.without(p_ranges bigint[], p_taken bigint[]) RETURNS bigint[]
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_left bigint[] := p_ranges;
    v_next bigint[];
BEGIN
    FOR t IN 1..coalesce(cardinality(p_taken), 0) BY 2 LOOP
        v_next := '{}';
        FOR i IN 1..cardinality(v_left) BY 2 LOOP
            IF v_left[i + 1] < p_taken[t] OR v_left[i] > p_taken[t + 1] THEN
                v_next := v_next || v_left[i] || v_left[i + 1];
                CONTINUE;
            END IF;
            IF v_left[i] < p_taken[t] THEN v_next := v_next || v_left[i] || (p_taken[t] - 1); END IF;
            IF v_left[i + 1] > p_taken[t + 1] THEN v_next := v_next || (p_taken[t + 1] + 1) || v_left[i + 1]; END IF;
        END LOOP;
        v_left := v_next;
    END LOOP;
    RETURN v_left;
END $$;
