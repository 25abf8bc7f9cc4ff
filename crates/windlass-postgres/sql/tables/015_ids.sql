-- One index for all who look for a job by its id, and small: rows of jobs that came back, the first row of each block of 16 ids, and
-- rows that the first of their block does not lead to, because it is not in the log or in another lane: who writes such a
-- row begins its attributes with a space (see log_rows, and mark_strays in src/batch.rs). The BRIN index cost a bulk append 14 % of the
-- server's time (1.60 -> 1.38 us for each row, PostgreSQL 15), and housekeeping had to summarize it.
DROP INDEX IF EXISTS {schema}.job_id;
DROP INDEX IF EXISTS {schema}.job_moved;
DROP INDEX IF EXISTS {schema}.job_block;
CREATE INDEX job_id ON {schema}.job (id) WHERE moved OR (id & 15) = 1 OR attributes ^@ ' ';
DROP FUNCTION IF EXISTS {schema}.summarize;
DROP FUNCTION IF EXISTS {schema}.log_rows_in_ranges;
ALTER TABLE {schema}.housekeeping DROP COLUMN IF EXISTS summarized;
