//! Servers of our own that a run may crash: PostgreSQL, standbys, PgBouncer.
