//! The storage contract on PostgreSQL.
#[path = "../cluster/mod.rs"]
mod cluster;

mod as_granted;
mod as_owner;
