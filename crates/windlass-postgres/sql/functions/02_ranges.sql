-- Sets of job ids as inclusive pairs [lo, hi, lo, hi, ...], ascending.

-- stretches(ids): the longest runs of ids without a gap.
CREATE OR REPLACE FUNCTION {schema}.stretches(p_ids bigint[]) RETURNS TABLE (low bigint, high bigint)
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
    SELECT min(s.id), max(s.id)
    FROM (SELECT i AS id, i - row_number() OVER (ORDER BY i) AS island FROM unnest(p_ids) AS i) AS s
    GROUP BY s.island
$$;

-- ranges_of(ids): ascending ids as inclusive pairs.
CREATE OR REPLACE FUNCTION {schema}.ranges_of(p_ids bigint[]) RETURNS bigint[]
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
    SELECT coalesce(array_agg(v.bound ORDER BY r.low, v.nth), '{}')
    FROM {schema}.stretches(p_ids) AS r, LATERAL (VALUES (1, r.low), (2, r.high)) AS v(nth, bound)
$$;

-- ids_of(ranges): the other way round. Planned for a million ids, which the compiler would want to be quick at.
CREATE OR REPLACE FUNCTION {schema}.ids_of(p_ranges bigint[]) RETURNS bigint[]
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
    SELECT ARRAY(SELECT g.id FROM generate_series(1, cardinality(p_ranges), 2) AS n,
                 LATERAL generate_series(p_ranges[n], p_ranges[n + 1]) AS g(id) ORDER BY g.id)
$$;
