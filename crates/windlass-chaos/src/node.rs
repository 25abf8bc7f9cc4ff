//! Servers of our own that a run may crash: PostgreSQL, standbys, PgBouncer, and the processes of the run.
//!
//! Everything here blocks (it starts programs and waits for them): asynchronous callers use
//! `tokio::task::spawn_blocking`. What a value started it stops and removes when it is dropped, after a panic
//! too. When the run itself is killed, the kernel ends the servers (`nursery`), and the next run removes
//! the folders that were left.

mod clock;
mod folder;
mod nursery;
mod pgbouncer;
mod port;
mod postgres;
mod proc_table;
pub mod process;
mod programs;
mod tmpfs;

pub use clock::Clock;
pub use pgbouncer::{PgBouncer, PoolOptions};
pub use port::free_port;
pub use postgres::{Postgres, PostgresOptions, Sync};
pub use process::Process;
pub use programs::left_out;
pub use tmpfs::Tmpfs;

use anyhow::{Result, bail};
use std::time::{Duration, Instant};

/// How long any of these programs may take for what was asked of it.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often a condition is looked at while waiting for it.
const POLL: Duration = Duration::from_millis(5);

/// Looks until there is an answer, for at most [`PATIENCE`].
fn wait_for<T>(what: &str, look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    wait_within(PATIENCE, what, look)
}

fn wait_within<T>(patience: Duration, what: &str, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let end = Instant::now() + patience;
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if Instant::now() > end {
            bail!("waited {} s in vain: {what}", patience.as_secs());
        }
        std::thread::sleep(POLL);
    }
}
