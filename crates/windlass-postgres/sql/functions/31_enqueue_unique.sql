-- Unique jobs by plain SQL. The canonical form is that of RFC 8785, as docs/design/unique.md has it for every language.

-- canonical_number(n): as ECMAScript prints a double. Refuses what is beyond 2^53, where different numbers are one double.
CREATE OR REPLACE FUNCTION {schema}.canonical_number(n numeric) RETURNS text
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1
AS $$
DECLARE
    v_parts  text[];
    v_digits text;
    v_point  integer; -- where the decimal point is, counted from before the first digit
    v_sign   text := CASE WHEN n < 0 THEN '-' ELSE '' END;
BEGIN
    IF abs(n) <= 2.4703282292062327e-324 THEN RETURN '0'; END IF; -- half of the smallest double
    IF abs(n) > 9007199254740992 OR abs(n::float8) > 9007199254740991 THEN
        RAISE 'a job is unique by args with the number %, which is beyond 2^53 and so not the same in every language; write it as a string, or leave its field out of the key',
            left(n::text, 40) USING ERRCODE = 'WL004';
    END IF;
    v_parts := regexp_match(abs(n::float8)::text, '^([0-9]+)\.?([0-9]*)e?([-+]?[0-9]*)$');
    v_digits := v_parts[1] || v_parts[2];
    v_point := length(v_parts[1]) + coalesce(nullif(v_parts[3], '')::integer, 0) - (length(v_digits) - length(ltrim(v_digits, '0')));
    v_digits := trim('0' FROM v_digits);
    RETURN v_sign || CASE
        WHEN v_point BETWEEN length(v_digits) AND 21 THEN rpad(v_digits, v_point, '0')
        WHEN v_point BETWEEN 1 AND 21 THEN left(v_digits, v_point) || '.' || substr(v_digits, v_point + 1)
        WHEN v_point BETWEEN -5 AND 0 THEN '0.' || repeat('0', -v_point) || v_digits
        ELSE rtrim(left(v_digits, 1) || '.' || substr(v_digits, 2), '.') || 'e' || to_char(v_point - 1, 'FMSG999') END;
END $$;

-- utf16_order(text): something that sorts as the text's UTF-16 units do: what needs two of them comes before U+E000.
CREATE OR REPLACE FUNCTION {schema}.utf16_order(t text) RETURNS integer[]
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
    SELECT ARRAY(SELECT CASE WHEN ascii(c) BETWEEN 57344 AND 65535 THEN ascii(c) + 1114112 ELSE ascii(c) END
                 FROM regexp_split_to_table(t, '') WITH ORDINALITY AS s(c, n) ORDER BY n)
$$;

-- canonical_json(value): its canonical text. In ASCII the names of fields have the order of their bytes.
CREATE OR REPLACE FUNCTION {schema}.canonical_json(j jsonb) RETURNS text
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF jsonb_typeof(j) = 'number' THEN RETURN {schema}.canonical_number((j #>> '{}')::numeric); END IF;
    IF jsonb_typeof(j) = 'array' THEN
        RETURN '[' || coalesce((
            SELECT string_agg({schema}.canonical_part(e.value), ',' ORDER BY e.n)
            FROM jsonb_array_elements(j) WITH ORDINALITY AS e(value, n)), '') || ']';
    END IF;
    IF jsonb_typeof(j) <> 'object' THEN RETURN j::text; END IF;
    IF octet_length(j::text) = char_length(j::text) THEN
        RETURN '{' || coalesce((
            SELECT string_agg(to_jsonb(f.key)::text || ':' || {schema}.canonical_part(f.value), ',' ORDER BY f.key COLLATE "C") FROM jsonb_each(j) AS f), '') || '}';
    END IF;
    RETURN '{' || coalesce((
        SELECT string_agg(to_jsonb(f.key)::text || ':' || {schema}.canonical_part(f.value), ',' ORDER BY {schema}.utf16_order(f.key)) FROM jsonb_each(j) AS f), '') || '}';
END $$;

-- canonical_part(value): the same, without a call where it is as jsonb prints it. No SET, so that it is part of the query that names it.
CREATE OR REPLACE FUNCTION {schema}.canonical_part(j jsonb) RETURNS text
    LANGUAGE sql IMMUTABLE
AS $$
    SELECT CASE WHEN jsonb_typeof(j) IN ('string', 'boolean', 'null') OR j::text ~ '^-?[0-9]{1,15}$' THEN j::text ELSE {schema}.canonical_json(j) END
$$;

-- unique_text(kind, queue, args, unique_key, unique_fields, unique_in): the text whose SHA-256 begins with the key of such a job.
CREATE OR REPLACE FUNCTION {schema}.unique_text(
    p_kind text, p_queue text, p_args jsonb, p_key text, p_fields text[], p_in text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_missing text;
    v_by      text;
    v_value   jsonb;
BEGIN
    IF p_in IS NULL OR p_in NOT IN ('kind', 'queue') THEN
        RAISE 'unique_in must be kind or queue, got %', coalesce(quote_literal(p_in), 'NULL') USING ERRCODE = 'WL003';
    END IF;
    IF p_key IS NOT NULL AND p_fields IS NOT NULL THEN
        RAISE 'a job is unique by unique_key or by unique_fields, not by both' USING ERRCODE = 'WL003';
    END IF;
    IF octet_length(p_key) NOT BETWEEN 1 AND 200 THEN
        RAISE 'a unique key must be 1 to 200 bytes, got %; hash what is longer', octet_length(p_key) USING ERRCODE = 'WL003';
    END IF;
    IF coalesce(cardinality(p_fields), 1) NOT BETWEEN 1 AND 32 THEN
        RAISE 'a unique job names 1 to 32 fields, got %', cardinality(p_fields) USING ERRCODE = 'WL003';
    END IF;
    IF p_key IS NOT NULL THEN
        v_by := 'key';
        v_value := to_jsonb(p_key);
    ELSIF p_fields IS NOT NULL THEN
        IF jsonb_typeof(p_args) <> 'object' THEN
            RAISE 'a job of kind % is unique by fields of its args, so these must be an object', quote_literal(p_kind) USING ERRCODE = 'WL004';
        END IF;
        IF NOT p_args ?& p_fields OR array_position(p_fields, NULL) IS NOT NULL THEN
            SELECT f INTO v_missing FROM unnest(p_fields) AS f WHERE f IS NULL OR NOT p_args ? f LIMIT 1;
            RAISE 'a job of kind % is unique by field %, which its args do not have', quote_literal(p_kind), coalesce(quote_literal(v_missing), 'NULL')
                USING ERRCODE = 'WL004';
        END IF;
        v_by := 'fields';
        v_value := CASE WHEN cardinality(p_fields) = 1 AND p_fields[1] IS NOT NULL THEN jsonb_build_object(p_fields[1], p_args -> p_fields[1])
                   ELSE (SELECT jsonb_object_agg(f, p_args -> f) FROM unnest(p_fields) AS f) END;
    ELSE
        v_by := 'args';
        v_value := p_args;
    END IF;
    RETURN format('["%s",%s,"%s",', p_in, to_jsonb(CASE p_in WHEN 'kind' THEN p_kind ELSE p_queue END), v_by) || {schema}.canonical_json(v_value) || ']';
END $$;

-- unique_rule(until, time, rule, max_wait): the rule as take_unique has it, of terms that it checks.
CREATE OR REPLACE FUNCTION {schema}.unique_rule(p_until text, p_for interval, p_rule text, p_wait interval) RETURNS smallint
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_rule smallint := array_position(ARRAY['keep', 'extend', 'replace', 'error'], p_rule) - 1;
    v_time interval;
BEGIN
    IF v_rule IS NULL THEN
        RAISE 'on_conflict must be keep, replace, extend or error, got %', coalesce(quote_literal(p_rule), 'NULL') USING ERRCODE = 'WL003';
    END IF;
    IF p_until IS NULL OR p_until NOT IN ('started', 'finished') THEN
        RAISE 'unique_until must be started or finished, got %; for a time pass unique_for', coalesce(quote_literal(p_until), 'NULL')
            USING ERRCODE = 'WL003';
    END IF;
    IF p_until = 'started' AND p_for IS NOT NULL THEN
        RAISE 'unique_until and unique_for exclude each other: a window holds whatever becomes of the job' USING ERRCODE = 'WL003';
    END IF;
    FOREACH v_time IN ARRAY ARRAY[p_for, p_wait] LOOP
        IF extract(epoch FROM v_time) NOT BETWEEN 0.001 AND 3162240000 THEN
            RAISE 'unique_for and max_wait must be a millisecond to 100 years, got %', v_time USING ERRCODE = 'WL003';
        END IF;
    END LOOP;
    IF p_rule = 'extend' AND p_for IS NULL THEN
        RAISE 'a unique job that extends needs a window to extend: pass unique_for' USING ERRCODE = 'WL003';
    END IF;
    IF p_wait IS NOT NULL AND p_rule <> 'replace' THEN
        RAISE 'max_wait goes with on_conflict => ''replace''' USING ERRCODE = 'WL003';
    END IF;
    RETURN v_rule;
END $$;

-- check_unique_due(at, expires_at): refuses what no unique job can be scheduled for.
CREATE OR REPLACE FUNCTION {schema}.check_unique_due(p_at timestamptz, p_expires_at timestamptz) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF p_at = '-infinity' THEN
        RAISE 'scheduled_at must be a finite time, got %', p_at USING ERRCODE = 'WL003';
    END IF;
    PERFORM {schema}.check_scheduled_at(p_at);
    IF p_expires_at <= p_at THEN
        RAISE 'the job expires at %, but it is due at %: it would never run', p_expires_at, p_at USING ERRCODE = 'WL003';
    END IF;
END $$;

-- unique_key_of(text): the key of which this is the text. No SET, here and below, so that they are part of the expression that names them.
CREATE OR REPLACE FUNCTION {schema}.unique_key_of(p_text text) RETURNS uuid
    LANGUAGE sql IMMUTABLE
AS $$ SELECT left(encode(sha256(convert_to(p_text, 'UTF8')), 'hex'), 32)::uuid $$;

-- unique_attributes(attributes, key, until): those of a job that can take its key again.
CREATE OR REPLACE FUNCTION {schema}.unique_attributes(p_attributes text, p_key uuid, p_until text) RETURNS text
    LANGUAGE sql IMMUTABLE
AS $$
    SELECT CASE p_attributes WHEN '' THEN '' ELSE left(p_attributes, -1) || ', ' END
        || format('%s"unique": {"key": "%s", "until": "%s"}}', CASE p_attributes WHEN '' THEN '{' ELSE '' END, replace(p_key::text, '-', ''), p_until)
$$;

-- enqueue_unique(kind, args, ...): stores one job unless another has its key, in the caller's transaction; which job has the key
-- now, and what became of the conflict: NULL (there was none), 'kept', 'replaced', 'extended'.
-- The key: unique_key, or unique_fields of the args, or else all args; within its kind or, with unique_in 'queue', its queue.
-- Until it is 'finished' or 'started' (unique_until), or for a time (unique_for). on_conflict: 'keep', 'replace' (with max_wait), 'extend'
-- (a time begins anew) or 'error' (SQLSTATE WL007). Waits for an unfinished transaction that took the key. READ COMMITTED only.
CREATE OR REPLACE FUNCTION {schema}.enqueue_unique(
    kind text, args jsonb DEFAULT '{}', unique_key text DEFAULT NULL, unique_fields text[] DEFAULT NULL,
    unique_in text DEFAULT 'kind', unique_until text DEFAULT 'finished', unique_for interval DEFAULT NULL,
    on_conflict text DEFAULT 'keep', max_wait interval DEFAULT NULL,
    queue text DEFAULT 'default', priority integer DEFAULT 0, max_attempts integer DEFAULT 20, scheduled_at timestamptz DEFAULT NULL,
    key text DEFAULT NULL, meta jsonb DEFAULT NULL, tracked boolean DEFAULT false, timeout interval DEFAULT NULL,
    retry_policy jsonb DEFAULT NULL, expires_at timestamptz DEFAULT NULL, tags text[] DEFAULT NULL, cost integer DEFAULT NULL,
    OUT id bigint, OUT conflict text)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    p_kind alias for $1; p_args alias for $2; p_until alias for $6; p_for alias for $7; p_wait alias for $9; p_at alias for $13;
    v_lane integer := {schema}.lane_of($10, $11);
    v_attributes text := {schema}.attributes_of($14, $15, $16, $17, $18, $19, $20, $21);
    v_rule smallint;
    v_key  uuid;
    r      record;
BEGIN
    PERFORM {schema}.check_job(p_kind, p_args, $12);
    v_rule := {schema}.unique_rule(p_until, p_for, $8, p_wait);
    PERFORM {schema}.check_unique_due(p_at, $19);
    v_key := {schema}.unique_key_of({schema}.unique_text(p_kind, $10, p_args, $3, $4, $5));
    IF p_for IS NULL THEN v_attributes := {schema}.unique_attributes(v_attributes, v_key, p_until); END IF;
    SELECT * INTO r FROM {schema}.put_unique(v_key, p_until = 'finished', (extract(epoch FROM p_for) * 1000000)::bigint, v_rule,
        (extract(epoch FROM p_wait) * 1000000)::bigint, v_lane, $10, p_kind, p_args::text, $12::smallint, v_attributes, p_at, NULL);
    id := r.id;
    conflict := CASE r.fate WHEN 1 THEN 'kept' WHEN 2 THEN 'extended' WHEN 4 THEN 'replaced' END;
END $$;
