-- Results by the batch: a row has either what job `job` returned, or the ids of several in `jobs`, a JSON array that ends with `job`,
-- and a JSON array of what these returned in `result`. Batches of one claim may overlap in their ids.
ALTER TABLE result ADD COLUMN jobs TEXT;
