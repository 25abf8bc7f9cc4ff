-- A job that is changed while it stands unclaimed in the log leaves its row there, to be stepped over, and stands in another
-- lane from then on. So what is stepped over is told by id and lane.
ALTER TABLE {schema}.cancelled_in_log DROP CONSTRAINT cancelled_in_log_pkey, ADD PRIMARY KEY (job_id, lane_id);
