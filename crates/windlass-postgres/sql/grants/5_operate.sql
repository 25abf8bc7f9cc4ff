-- What people do to jobs, queues and settings.
GRANT EXECUTE ON FUNCTION {schema}.cancel, {schema}.retry, {schema}.pause, {schema}.resume, {schema}.configure TO {role};
