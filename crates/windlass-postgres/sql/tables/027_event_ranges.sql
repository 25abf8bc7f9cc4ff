-- Jobs that one statement enqueued for later are told of by one row for all those of a lane and kind whose ids follow one another: job_id to last_id. NULL: job_id alone.
-- A row for each was a third of what it cost to schedule in bulk.
ALTER TABLE {schema}.event ADD COLUMN IF NOT EXISTS last_id bigint;
