//! The physical limit: what the database does with the same rows when nothing makes a queue of them.

mod postgres;
mod sqlite;

use super::{Finding, MAX_JOBS, Meter};
use crate::{failure::Outcome, measure::per_second, open, span, trial::Place};
use serde_json::json;
use std::time::Duration;
use windlass::StoreKind;

/// Writes the rows that jobs are, reads them, and counts small commits: no queue, no handlers.
#[derive(clap::Args)]
pub(crate) struct Limit {
    /// How many rows
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=MAX_JOBS))]
    jobs: u64,
    /// How long commits are counted, once by 1 and once by 10 connections
    #[arg(long, value_parser = span::parse, default_value = "3s")]
    commits_for: Duration,
}

/// The columns of a job, as both databases know them.
const COLUMNS: &str = "id bigint, enqueued_at bigint, lane_id integer, segment smallint, attempt smallint, \
                       max_attempts smallint, crash_count smallint, xid bigint";
const KIND: &str = "windlass.noop";
/// Rows of one transaction.
const BATCH: u64 = 10_000;
/// How often writing and reading are repeated. The best counts: a limit is what nothing disturbed.
const ROUNDS: usize = 3;

/// What was found.
struct Raw {
    write: Duration,
    read: Duration,
    /// Commits of one row each, by 1 and by 10 connections.
    commits: [u64; 2],
}

const CLIENTS: [usize; 2] = [1, 10];

impl Limit {
    pub(super) async fn measure(&self, place: &Place) -> Outcome<Finding> {
        let meter = Meter::open(place).await;
        let client = open::create(&place.url).await?;
        client.migrate().await?;
        client.close().await;
        let raw = match StoreKind::of(&place.url)? {
            StoreKind::Postgres => postgres::measure(&place.url, self).await?,
            _ => sqlite::measure(&place.url, self)?,
        };
        let costs = meter.costs(&meter.read().await, self.jobs);
        let settings = json!({
            "jobs": self.jobs, "batch": BATCH, "rounds": ROUNDS, "commits_for_seconds": self.commits_for.as_secs_f64(),
        });
        let figures = json!({
            "written_per_second": per_second(self.jobs, raw.write),
            "read_per_second": per_second(self.jobs, raw.read),
            "written_and_read_per_second": per_second(self.jobs, raw.write + raw.read),
            "commits_per_second_1": per_second(raw.commits[0], self.commits_for),
            "commits_per_second_10": per_second(raw.commits[1], self.commits_for),
        });
        let peak_memory = costs.into_iter().filter(|(name, _)| name == "peak_memory_bytes").collect();
        Ok(Finding::new("limit", None, (settings, figures)).costing(peak_memory, None))
    }
}
