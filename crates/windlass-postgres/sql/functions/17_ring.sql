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
CREATE OR REPLACE VIEW {schema}.cursor AS
    SELECT l.id AS lane_id, coalesce(c.from_snapshot, '4:4:') AS from_snapshot,
           coalesce(c.to_snapshot, '4:4:') AS to_snapshot, c.end_xid, c.end_id
    FROM {schema}.lane l LEFT JOIN LATERAL (
        SELECT * FROM {schema}.claim c WHERE c.lane_id = l.id ORDER BY c.seq DESC LIMIT 1) AS c ON true;

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
    UPDATE {schema}.housekeeping SET summarized = 0;
    UPDATE {schema}.ring SET segment = v_next, opened_at = clock_timestamp(), closed_at = v_ring.closed_at;
    RETURN true;
END $$;

-- summarize(): lets lookups by id skip what was appended since. One step, of at most 16 ranges (of 64
-- pages, see job_id) of the segment that is written, the oldest first; `again`: there is more.
-- Of that segment only ranges that are full: an insert into a range that is summarized changes the index, and writes that
-- to the WAL.
-- Cost: 0.1 us for each job that was appended since, some 8 ms for a step.
CREATE OR REPLACE FUNCTION {schema}.summarize(OUT again boolean)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    i       record;
    v_block bigint;
    v_full  bigint;
    v_stop  bigint;
BEGIN
    again := false;
    SELECT h.summarized INTO v_block FROM {schema}.housekeeping h FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN RETURN; END IF;
    FOR i IN SELECT x.indexrelid, x.indrelid, x.indrelid = format('{schema}.job_%s', {schema}.current_segment())::regclass AS is_current
        FROM pg_inherits h JOIN pg_index x ON x.indrelid = h.inhrelid JOIN pg_class c ON c.oid = x.indexrelid JOIN pg_am a ON a.oid = c.relam
        WHERE h.inhparent = '{schema}.job'::regclass AND a.amname = 'brin' ORDER BY 3 DESC
    LOOP
        IF NOT i.is_current THEN
            PERFORM brin_summarize_new_values(i.indexrelid);
            CONTINUE;
        END IF;
        v_full := pg_relation_size(i.indrelid) / current_setting('block_size')::integer / 64 * 64;
        v_stop := least(v_full, v_block + 16 * 64);
        again := v_stop < v_full;
        WHILE v_block < v_stop LOOP
            PERFORM brin_summarize_range(i.indexrelid, v_block);
            v_block := v_block + 64;
        END LOOP;
        UPDATE {schema}.housekeeping SET summarized = v_block WHERE summarized <> v_block;
        EXIT WHEN again;
    END LOOP;
END $$;
