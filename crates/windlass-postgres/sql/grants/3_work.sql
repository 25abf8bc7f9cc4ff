-- What the engine of a worker calls, housekeeping included. The functions run with the rights of their owner, so no table of
-- jobs can be read or emptied but through them.
GRANT SELECT ON TABLE {schema}.setting, {schema}.audit_setting TO {role};
GRANT SELECT (ended_at) ON TABLE {schema}.worker TO {role};
GRANT SELECT (worker_id), DELETE ON TABLE {schema}.leader TO {role};
GRANT EXECUTE ON FUNCTION {schema}.home_state, {schema}.rehome, {schema}.register, {schema}.heartbeat, {schema}.is_draining, {schema}.is_outdated, {schema}.suspect,
    {schema}.end_worker, {schema}.rescue, {schema}.lead, {schema}.any_available, {schema}.available_now, {schema}.coming, {schema}.promote, {schema}.claim,
    {schema}.settle, {schema}.settle_with_results, {schema}.complete_in, {schema}.report, {schema}.checkpoints TO {role};
GRANT EXECUTE ON FUNCTION {schema}.maintain, {schema}.segment_bytes, {schema}.table_bytes, {schema}.forget_dead,
    {schema}.forget_errors, {schema}.forget_keys, {schema}.forget_workers, {schema}.forget_lanes, {schema}.cancel_requests, {schema}.forget_requests, {schema}.forget_unique, {schema}.forget_reports, {schema}.fold, {schema}.forget_counters,
    {schema}.share, {schema}.limited_queues, {schema}.forget_shares, {schema}.forget_key_turns, {schema}.forget_audit, {schema}.measure,
    {schema}.keep_timings, {schema}.forget_came_back, {schema}.forget_no_handler, {schema}.mark_deploys TO {role};
-- Schedules: a worker declares those of its program, and the one that leads decides about all, some by whether their last job has ended.
GRANT EXECUTE ON FUNCTION {schema}.put_schedules, {schema}.due_schedules, {schema}.advance_schedules, {schema}.ended_jobs TO {role};
