//! What is read from the machine and from the database server.

mod machine;
mod plain_commit;
mod server;
mod server_cpu;
mod snapshot;
mod timeline;

pub(crate) use machine::Machine;
pub(crate) use plain_commit::plain_commits;
pub(crate) use server::{Counters, ServerGauge, open_session};
pub(crate) use snapshot::HeldSnapshot;
pub(crate) use timeline::Timeline;

/// Three digits after the point.
pub(crate) fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
