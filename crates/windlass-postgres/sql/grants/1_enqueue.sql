-- Jobs by the SQL functions, which check what they store. Nothing can be read.
GRANT USAGE ON SCHEMA {schema} TO {role};
GRANT EXECUTE ON FUNCTION {schema}.enqueue, {schema}.enqueue_many, {schema}.enqueue_once, {schema}.enqueue_many_once,
    {schema}.enqueue_unique, {schema}.enqueue_many_unique TO {role};
