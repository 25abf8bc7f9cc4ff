-- Results by the batch: one row for many, as settlements are. A row has either result, of job job_id, or
--   jobs: ascending ids, of which job_id is the last; results: a JSON array with an element for each.
-- Batches of one claim may overlap in their ids: jobs end in any order.
ALTER TABLE {schema}.result ALTER COLUMN result DROP NOT NULL, ADD COLUMN jobs bigint[], ADD COLUMN results json;
