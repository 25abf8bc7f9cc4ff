-- draining_at: since when the worker is to take no more jobs, end what it runs, and go; NULL where nobody asked.
ALTER TABLE {schema}.worker ADD COLUMN draining_at timestamptz;
