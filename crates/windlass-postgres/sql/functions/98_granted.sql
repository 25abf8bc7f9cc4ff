-- granted_ACCESS(): do nothing. Who may call one was granted that access, by `windlass grant` or by the statements that `windlass
-- migrate --print-grants` writes: see sql/grants/. Each migration finds them by it and grants what the access takes by then.
-- So what was granted is noted where PostgreSQL keeps rights: it goes with the role, follows its new name, and is in a dump.
CREATE OR REPLACE FUNCTION {schema}.granted_sql_producer() RETURNS void LANGUAGE sql IMMUTABLE AS '';
CREATE OR REPLACE FUNCTION {schema}.granted_producer() RETURNS void LANGUAGE sql IMMUTABLE AS '';
CREATE OR REPLACE FUNCTION {schema}.granted_worker() RETURNS void LANGUAGE sql IMMUTABLE AS '';
CREATE OR REPLACE FUNCTION {schema}.granted_viewer() RETURNS void LANGUAGE sql IMMUTABLE AS '';
CREATE OR REPLACE FUNCTION {schema}.granted_operator() RETURNS void LANGUAGE sql IMMUTABLE AS '';
