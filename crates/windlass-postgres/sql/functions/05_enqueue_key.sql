-- Idempotency keys: an enqueue that is repeated stores nothing and learns the ids of the first.

-- hold_key(key, ids, count): takes a key for the caller's transaction and notes the ids of its `count` jobs.
-- Returns NULL when the key is new, else the ids of the call that took it first. Waits for an unfinished
-- transaction that holds the key.
-- The row is read FOR UPDATE, which writes WAL: so the caller's commit waits for a synchronous standby, and
-- what it acknowledges is replicated even where the first call's wait was cancelled.
-- Cost: 0.18 ms a new key (20,000 in one transaction, two busy cores), beside the jobs themselves.
CREATE OR REPLACE FUNCTION {schema}.hold_key(p_key text, p_ids bigint[], p_count integer) RETURNS bigint[]
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_ids bigint[];
BEGIN
    IF p_key IS NULL OR octet_length(p_key) NOT BETWEEN 1 AND 200 THEN
        RAISE 'an idempotency key must be 1 to 200 bytes, got %', coalesce(octet_length(p_key)::text, 'NULL') USING ERRCODE = 'WL003';
    END IF;
    FOR i IN 1..3 LOOP -- it may be forgotten between the two statements
        INSERT INTO {schema}.enqueue_key (key, ranges) VALUES (p_key, {schema}.ranges_of(p_ids)) ON CONFLICT (key) DO NOTHING;
        IF FOUND THEN RETURN NULL; END IF;
        SELECT {schema}.ids_of(k.ranges) INTO v_ids FROM {schema}.enqueue_key k WHERE k.key = p_key FOR UPDATE;
        IF FOUND THEN
            IF cardinality(v_ids) <> p_count THEN
                RAISE 'idempotency key % was used for % jobs, now for %; use a key of its own for each batch',
                    quote_literal(p_key), cardinality(v_ids), p_count USING ERRCODE = 'WL003';
            END IF;
            RETURN v_ids;
        END IF;
    END LOOP;
    RAISE 'idempotency key % is forgotten as often as it is taken; try again', quote_literal(p_key) USING ERRCODE = '40001';
END $$;

-- take_ids(count): so many new ids, ascending. They come in blocks as large as the sequence steps.
-- Cost: 2 us for one, 30 us for more than a block.
CREATE OR REPLACE FUNCTION {schema}.take_ids(p_count integer) RETURNS bigint[]
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_first bigint;
BEGIN
    IF p_count = 1 THEN RETURN ARRAY[nextval('{schema}.job_id_seq')]; END IF;
    IF p_count <= (SELECT s.seqincrement FROM pg_sequence s WHERE s.seqrelid = '{schema}.job_id_seq'::regclass) THEN
        v_first := nextval('{schema}.job_id_seq');
        RETURN ARRAY(SELECT generate_series(v_first, v_first + p_count - 1));
    END IF;
    RETURN ARRAY(SELECT g.id FROM pg_sequence s,
                 LATERAL (SELECT nextval('{schema}.job_id_seq') AS first
                          FROM generate_series(1, (p_count + s.seqincrement - 1) / s.seqincrement)) AS b,
                 LATERAL generate_series(b.first, b.first + s.seqincrement - 1) AS g(id)
                 WHERE s.seqrelid = '{schema}.job_id_seq'::regclass ORDER BY g.id LIMIT p_count);
END $$;

-- take_key(key, count): takes the ids of `count` jobs under a key, for a writer that stores the rows itself,
-- in the same transaction. repeated: the rows are stored already, under these ids.
CREATE OR REPLACE FUNCTION {schema}.take_key(
    p_key text, p_count integer, OUT ids bigint[], OUT repeated boolean, OUT taken_at timestamptz)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_known bigint[];
BEGIN
    ids := {schema}.take_ids(p_count);
    v_known := {schema}.hold_key(p_key, ids, p_count);
    repeated := v_known IS NOT NULL;
    ids := coalesce(v_known, ids);
    taken_at := clock_timestamp();
END $$;

-- enqueue_once(key, kind, args, ...): enqueue(kind, args, ...) under an idempotency key: stores one job at
-- most once and returns its id, also when it is repeated. For programs that cannot know whether an earlier
-- try was committed. Not for REPEATABLE READ, where it fails with a serialization error on a newer key.
CREATE OR REPLACE FUNCTION {schema}.enqueue_once(
    key text, kind text, args jsonb DEFAULT '{}', queue text DEFAULT 'default', priority integer DEFAULT 0,
    max_attempts integer DEFAULT 20, scheduled_at timestamptz DEFAULT NULL,
    job_key text DEFAULT NULL, meta jsonb DEFAULT NULL, tracked boolean DEFAULT false, timeout interval DEFAULT NULL,
    retry_policy jsonb DEFAULT NULL, expires_at timestamptz DEFAULT NULL, tags text[] DEFAULT NULL, cost integer DEFAULT NULL) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    p_key alias for $1;
    v_ids bigint[] := {schema}.hold_key($1, '{}', 1);
    v_id  bigint;
BEGIN
    IF v_ids IS NOT NULL THEN RETURN v_ids[1]; END IF;
    v_id := {schema}.enqueue($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15);
    UPDATE {schema}.enqueue_key k SET ranges = ARRAY[v_id, v_id] WHERE k.key = p_key;
    RETURN v_id;
END $$;

-- enqueue_many_once(key, jobs): enqueue_many(jobs) under an idempotency key: all, or none, and at most once.
CREATE OR REPLACE FUNCTION {schema}.enqueue_many_once(key text, jobs jsonb) RETURNS SETOF bigint
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    p_key alias for $1; p_jobs alias for $2;
    v_ids bigint[];
BEGIN
    PERFORM {schema}.check_array('enqueue_many_once', p_jobs);
    v_ids := {schema}.hold_key(p_key, '{}', jsonb_array_length(p_jobs));
    IF v_ids IS NULL THEN
        v_ids := ARRAY(SELECT {schema}.enqueue_many(p_jobs));
        UPDATE {schema}.enqueue_key k SET ranges = {schema}.ranges_of(v_ids) WHERE k.key = p_key;
    END IF;
    RETURN QUERY SELECT unnest(v_ids);
END $$;
