-- Arithmetic on snapshots: the only place that knows how the cursor moves.

-- delta(from, to): the transactions visible in `to` and not in `from`, as ascending inclusive ranges.
-- First those that were open at `from` and ended since, one by one; then everything between the two
-- xmax, cut where a transaction is still open at `to` - so a scan never steps over uncommitted rows,
-- however many a bulk insert has written. Never starts from from.xmin: one old open transaction would
-- make every claim walk what was consumed.
-- Cost: linear in the open transactions, 5 us without any.
CREATE OR REPLACE FUNCTION {schema}.delta(p_from pg_snapshot, p_to pg_snapshot, OUT lo xid8[], OUT hi xid8[])
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

-- seen_until(from, to, xid): where one stands who has seen of delta(from, to) what comes up to that transaction: delta(seen_until, to) is the rest.
CREATE OR REPLACE FUNCTION {schema}.seen_until(p_from pg_snapshot, p_to pg_snapshot, p_xid xid8) RETURNS pg_snapshot
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_end bigint := greatest(pg_snapshot_xmax(p_from)::text::bigint, p_xid::text::bigint + 1);
BEGIN
    RETURN (SELECT concat_ws(':', coalesce(min(u.n), v_end), v_end, coalesce(string_agg(u.n::text, ',' ORDER BY u.n), '')) FROM (
        SELECT x::text::bigint AS n FROM pg_snapshot_xip(p_from) AS x WHERE x > p_xid OR NOT pg_visible_in_snapshot(x, p_to)
        UNION ALL
        SELECT x::text::bigint FROM pg_snapshot_xip(p_to) AS x WHERE x >= pg_snapshot_xmax(p_from) AND x <= p_xid) AS u)::pg_snapshot;
END $$;

-- after(lo, hi, start): the same ranges from behind position (start_xid, start_id) on, as three arrays:
-- rows with (xid, id) > (lo, lo_id) and xid <= hi.
CREATE OR REPLACE FUNCTION {schema}.after(
    p_lo xid8[], p_hi xid8[], p_xid xid8, p_id bigint, OUT lo xid8[], OUT lo_id bigint[], OUT hi xid8[])
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    SELECT array_agg(CASE WHEN r.lo <= p_xid THEN p_xid ELSE r.lo END ORDER BY n),
           array_agg(CASE WHEN r.lo <= p_xid THEN p_id ELSE 0 END ORDER BY n),
           array_agg(r.hi ORDER BY n)
        INTO lo, lo_id, hi
        FROM unnest(p_lo, p_hi) WITH ORDINALITY AS r(lo, hi, n)
        WHERE p_xid IS NULL OR r.hi >= p_xid;
END $$;

-- consumed(claim, xid, id): whether the cursor that this claim left behind has handed the row out.
CREATE OR REPLACE FUNCTION {schema}.consumed(
    p_from pg_snapshot, p_to pg_snapshot, p_end_xid xid8, p_end_id bigint, p_xid xid8, p_id bigint)
    RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT pg_catalog.pg_visible_in_snapshot(p_xid, p_from)
        OR pg_catalog.pg_visible_in_snapshot(p_xid, p_to)
           AND (p_end_xid IS NULL OR (p_xid, p_id) <= (p_end_xid, p_end_id))
$$;
