-- Sets of job ids as inclusive pairs [lo, hi, lo, hi, ...], ascending.

-- in_ranges(id, ranges): whether a settlement with these ranges names the job; NULL ranges name the rest.
CREATE OR REPLACE FUNCTION {schema}.in_ranges(p_id bigint, p_ranges bigint[]) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT EXISTS (SELECT 1 FROM pg_catalog.generate_series(1, pg_catalog.cardinality(p_ranges), 2) AS i
                   WHERE p_id BETWEEN p_ranges[i] AND p_ranges[i + 1])
$$;

-- covers(outer, inner): whether every range of inner lies in one of outer.
CREATE OR REPLACE FUNCTION {schema}.covers(p_outer bigint[], p_inner bigint[]) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT NOT EXISTS (
        SELECT 1 FROM pg_catalog.generate_series(1, pg_catalog.cardinality(p_inner), 2) AS i
        WHERE NOT EXISTS (
            SELECT 1 FROM pg_catalog.generate_series(1, pg_catalog.cardinality(p_outer), 2) AS o
            WHERE p_inner[i] >= p_outer[o] AND p_inner[i + 1] <= p_outer[o + 1]))
$$;

-- overlap(a, b): whether any id lies in both.
CREATE OR REPLACE FUNCTION {schema}.overlap(p_a bigint[], p_b bigint[]) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT EXISTS (
        SELECT 1 FROM pg_catalog.generate_series(1, pg_catalog.cardinality(p_a), 2) AS a,
                      pg_catalog.generate_series(1, pg_catalog.cardinality(p_b), 2) AS b
        WHERE p_a[a] <= p_b[b + 1] AND p_b[b] <= p_a[a + 1])
$$;

-- without(ranges, taken): ranges minus taken.
CREATE OR REPLACE FUNCTION {schema}.without(p_ranges bigint[], p_taken bigint[]) RETURNS bigint[]
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

-- ranges_of(ids): ascending ids as inclusive pairs.
CREATE OR REPLACE FUNCTION {schema}.ranges_of(p_ids bigint[]) RETURNS bigint[]
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
    SELECT coalesce(array_agg(v.bound ORDER BY r.lo, v.nth), '{}')
    FROM (SELECT min(s.id) AS lo, max(s.id) AS hi
          FROM (SELECT i AS id, i - row_number() OVER (ORDER BY i) AS island FROM unnest(p_ids) AS i) AS s
          GROUP BY s.island) AS r,
         LATERAL (VALUES (1, r.lo), (2, r.hi)) AS v(nth, bound)
$$;

-- ids_of(ranges): the other way round. Planned for a million ids, which the compiler would want to be quick at.
CREATE OR REPLACE FUNCTION {schema}.ids_of(p_ranges bigint[]) RETURNS bigint[]
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
    SELECT ARRAY(SELECT g.id FROM generate_series(1, cardinality(p_ranges), 2) AS n,
                 LATERAL generate_series(p_ranges[n], p_ranges[n + 1]) AS g(id) ORDER BY g.id)
$$;
