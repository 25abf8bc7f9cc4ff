-- Everything about jobs, queues and workers, to read: the views, and what they and the listings are made of. The functions run
-- with the rights of their caller, and none of them writes.
GRANT USAGE ON SCHEMA {schema} TO {role};
GRANT SELECT ON TABLE {schema}.migration, {schema}.setting, {schema}.retention_rule, {schema}.counter, {schema}.counter_fold, {schema}.ring, {schema}.queue, {schema}.lane, {schema}.job, {schema}.claim,
    {schema}.settlement, {schema}.result, {schema}.event, {schema}.event_log, {schema}.waiting, {schema}.dead, {schema}.cancelled_in_log, {schema}.cancel_request, {schema}.attempt_error, {schema}.job_report,
    {schema}.worker, {schema}.leader, {schema}.slot, {schema}.came_back, {schema}.no_handler TO {role};
GRANT SELECT ON TABLE {schema}.jobs, {schema}.queues, {schema}.cursor, {schema}.unclaimed, {schema}.exceptional TO {role};
GRANT EXECUTE ON FUNCTION {schema}.job_record, {schema}.records_at, {schema}.ended_jobs, {schema}.history, {schema}.result, {schema}.progress, {schema}.tags_of, {schema}.list_jobs, {schema}.args_contain, {schema}.error_contains, {schema}.is_envelope, {schema}.open_available, {schema}.open_running,
    {schema}.open_completed, {schema}.open_waiting, {schema}.open_dead, {schema}.any_available, {schema}.available_now, {schema}.coming, {schema}.lane_counts,
    {schema}.unclaimed_ranges, {schema}.unclaimed_estimate, {schema}.unclaimed_on_pages, {schema}.cancelled_ahead, {schema}.last_uncancelled, {schema}.uncancelled, {schema}.claimed_estimate,
    {schema}.state_estimate, {schema}.page_tids, {schema}.rows_in_page, {schema}.counted_exactly, {schema}.startable_since, {schema}.no_handler_since, {schema}.waits_for_handler, {schema}.no_handler_places, {schema}.kinds_noted TO {role};
GRANT EXECUTE ON FUNCTION {schema}.find_job, {schema}.log_rows, {schema}.claim_of, {schema}.result_of, {schema}.open_claims,
    {schema}.claim_jobs, {schema}.events, {schema}.unsettled_jobs, {schema}.settlement_of, {schema}.consumed, {schema}.delta, {schema}.after TO {role};
GRANT SELECT ON TABLE {schema}.schedule, {schema}.schedules TO {role};
GRANT SELECT ON TABLE {schema}.key_limit, {schema}.key_turn, {schema}.key_lane TO {role};
GRANT EXECUTE ON FUNCTION {schema}.key_limits, {schema}.key_of, {schema}.key_ready, {schema}.key_lane_of TO {role};
-- Who changed what.
GRANT SELECT ON TABLE {schema}.timing, {schema}.failure, {schema}.audit_entry, {schema}.audit_setting, {schema}.audit TO {role};
GRANT EXECUTE ON FUNCTION {schema}.audit_page TO {role};
