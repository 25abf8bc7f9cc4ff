//! The embedded SQLite store of Windlass.
