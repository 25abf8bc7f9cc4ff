-- The ring of segments: which is written now, and when it moves on.

-- current_segment(): the segment that is written now. In plpgsql, because a function in SQL is planned in each transaction
-- anew, which takes 30 us where the caches are cold.
CREATE OR REPLACE FUNCTION {schema}.current_segment() RETURNS smallint
    LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (SELECT r.segment FROM {schema}.ring r);
END $$;

-- Rows that name no segment go to the current one. The table is older than the function, so it says so here.
DO $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_attrdef d JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
                   WHERE d.adrelid = '{schema}.job'::regclass AND a.attname = 'segment') THEN
        ALTER TABLE ONLY {schema}.job ALTER COLUMN segment SET DEFAULT {schema}.current_segment();
    END IF;
END $$;

-- cursor: per lane, what has been handed out (see table claim). A lane without claims: nothing.
SELECT {schema}.keep_view('cursor', $view$
    SELECT l.id AS lane_id, coalesce(c.from_snapshot, '4:4:') AS from_snapshot,
           coalesce(c.to_snapshot, '4:4:') AS to_snapshot, c.end_xid, c.end_id
    FROM {schema}.lane l LEFT JOIN LATERAL (
        SELECT * FROM {schema}.claim c WHERE c.lane_id = l.id ORDER BY c.seq DESC LIMIT 1) AS c ON true$view$);

-- table_bytes(table): the size of a table's rows, those in its TOAST table included; 0 only when TRUNCATE left it empty.
CREATE OR REPLACE FUNCTION {schema}.table_bytes(p_table regclass) RETURNS bigint
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
    SELECT pg_relation_size(c.oid) + CASE WHEN c.reltoastrelid = 0 THEN 0 ELSE pg_relation_size(c.reltoastrelid) END
    FROM pg_class c WHERE c.oid = p_table
$$;

-- segment_bytes(segment): the size of its leaves.
CREATE OR REPLACE FUNCTION {schema}.segment_bytes(p_segment integer) RETURNS bigint
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
    SELECT sum({schema}.table_bytes(format('{schema}.%s_%s', t, p_segment)::regclass))::bigint
    FROM unnest(ARRAY['job', 'claim', 'settlement', 'result', 'event']) AS t
$$;

-- follow_clock(): a segment that was opened or closed in the future was so before the clock was set back: that counts as now. Retention would stand still
-- for as long as the clock was ahead.
CREATE OR REPLACE FUNCTION {schema}.follow_clock() RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
BEGIN
    UPDATE {schema}.ring SET opened_at = least(opened_at, v_now),
            closed_at = ARRAY(SELECT least(c.at, v_now) FROM unnest(closed_at) WITH ORDINALITY AS c(at, nth) ORDER BY c.nth)
        WHERE greatest(opened_at, closed_at[1], closed_at[2], closed_at[3], closed_at[4]) > v_now + interval '1 second';
END $$;

-- oldest_segment(retention): the one to empty next: the oldest that holds anything, when it was closed that long
-- ago; else NULL. Retention counts from when a segment was closed, so completed jobs stay readable for at least
-- that long after they were enqueued and at most two segments longer.
CREATE OR REPLACE FUNCTION {schema}.oldest_segment(p_retention interval) RETURNS smallint
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_ring {schema}.ring;
    v_next smallint;
BEGIN
    SELECT * INTO v_ring FROM {schema}.ring;
    FOR i IN 1..3 LOOP
        v_next := (v_ring.segment + i) % 4;
        CONTINUE WHEN {schema}.segment_bytes(v_next) = 0;
        IF v_ring.closed_at[v_next + 1] + p_retention > clock_timestamp() THEN RETURN NULL; END IF;
        RETURN v_next;
    END LOOP;
    RETURN NULL;
END $$;

-- rotate(retention, segment_bytes): moves on to the next segment when that is empty and this one is full, or was
-- opened half a retention ago. Whether it did. A segment in which nothing was settled or cancelled stays open:
-- none of it could be removed, and emptying it would copy it as it is, again and again.
CREATE OR REPLACE FUNCTION {schema}.rotate(p_retention interval, p_segment_bytes bigint) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_ring {schema}.ring;
    v_next smallint;
BEGIN
    SELECT * INTO v_ring FROM {schema}.ring;
    v_next := (v_ring.segment + 1) % 4;
    IF {schema}.segment_bytes(v_next) > 0
       OR {schema}.segment_bytes(v_ring.segment) < p_segment_bytes AND v_ring.opened_at + p_retention / 2 > clock_timestamp()
       OR {schema}.table_bytes(format('{schema}.settlement_%s', v_ring.segment)::regclass) = 0
          AND NOT EXISTS (SELECT 1 FROM {schema}.cancelled_in_log) THEN
        RETURN false;
    END IF;
    v_ring.closed_at[v_ring.segment + 1] := clock_timestamp();
    UPDATE {schema}.ring SET segment = v_next, opened_at = clock_timestamp(), closed_at = v_ring.closed_at;
    RETURN true;
END $$;
