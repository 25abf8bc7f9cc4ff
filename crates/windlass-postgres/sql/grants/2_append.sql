-- Jobs by the client libraries, which write rows into the log themselves, by INSERT and COPY: these columns, none of those
-- that say when a row became available or how often it was tried. An id is all that can be read.
GRANT SELECT ON TABLE {schema}.migration, {schema}.ring TO {role};
GRANT EXECUTE ON FUNCTION {schema}.current_segment, {schema}.lane_of, {schema}.take_key, {schema}.take_unique, {schema}.replace_unique,
    {schema}.put_unique, {schema}.put_unique_singles TO {role};
GRANT USAGE ON SEQUENCE {schema}.job_id_seq TO {role};
GRANT INSERT (id, lane_id, max_attempts, kind, args, attributes), SELECT (id)
    ON TABLE {schema}.job_0, {schema}.job_1, {schema}.job_2, {schema}.job_3 TO {role};
GRANT INSERT (id, available_at, lane_id, max_attempts, kind, args, attributes) ON TABLE {schema}.waiting TO {role};
