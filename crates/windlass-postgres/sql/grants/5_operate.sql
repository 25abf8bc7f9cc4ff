-- What people do to jobs, queues and settings.
GRANT EXECUTE ON FUNCTION {schema}.cancel, {schema}.retry, {schema}.edit, {schema}.edit_job, {schema}.delete, {schema}.pause, {schema}.resume, {schema}.configure, {schema}.set_retention TO {role};
