-- Who looks for a job by its id finds it by the primary key, whatever statistics say. These end in an expression because as a column the id could be looked for in them as well: where
-- statistics said that the table was empty (as they do after everything in it was deleted, until it is analysed again) both ways seemed to cost the same, and a cancel read all of 10^6 entries.
DROP INDEX IF EXISTS {schema}.waiting_lane;
CREATE INDEX waiting_lane ON {schema}.waiting (lane_id, state, available_at, (id + 0));
DROP INDEX IF EXISTS {schema}.dead_lane;
CREATE INDEX dead_lane ON {schema}.dead (lane_id, state, finished_at, (id + 0));
DROP INDEX IF EXISTS {schema}.cancelled_in_log_place;
CREATE INDEX cancelled_in_log_place ON {schema}.cancelled_in_log (lane_id, xid, (job_id + 0));
