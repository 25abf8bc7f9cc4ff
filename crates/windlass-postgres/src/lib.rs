//! The PostgreSQL store of Windlass: an append-only job log.
