-- What people do to jobs, queues and settings.
GRANT EXECUTE ON FUNCTION {schema}.act_on, {schema}.cancel, {schema}.retry, {schema}.edit, {schema}.edit_job, {schema}.delete, {schema}.pause, {schema}.resume, {schema}.drain_worker, {schema}.configure, {schema}.set_retention,
    {schema}.limit_queue, {schema}.unlimit_queue TO {role};
-- They run with the rights of their caller.
GRANT EXECUTE ON FUNCTION {schema}.short_wait, {schema}.is_envelope TO {role};
GRANT EXECUTE ON PROCEDURE {schema}.touch_jobs, {schema}.cancel_jobs, {schema}.retry_jobs, {schema}.edit_jobs, {schema}.delete_jobs TO {role};
GRANT EXECUTE ON FUNCTION {schema}.put_schedules, {schema}.set_schedule, {schema}.remove_schedules, {schema}.remove_schedule, {schema}.pause_schedules,
    {schema}.pause_schedule, {schema}.resume_schedule, {schema}.run_schedule, {schema}.advance_schedules TO {role};
GRANT EXECUTE ON FUNCTION {schema}.limit_keys, {schema}.put_key_limits, {schema}.limit_key, {schema}.unlimit_key, {schema}.unlimit_keys, {schema}.empty_keyed_lanes, {schema}.key_limits TO {role};
-- Who changes something says so. Nobody who owns nothing can change or remove what was said.
GRANT EXECUTE ON FUNCTION {schema}.append_audit, {schema}.configure_audit TO {role};
