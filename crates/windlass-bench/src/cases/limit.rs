//! The physical limit: what the database does with the same rows when nothing makes a queue of them.

mod plan;
mod postgres;
mod sqlite;

use crate::{finding::Finding, meter::Meter, options::MAX_JOBS};
use plan::{BATCH, Plan, ROUNDS};
use serde_json::json;
use std::time::Duration;
use windlass::StoreKind;
use windlass_cli::{
    duration,
    failure::Outcome,
    measure::{MeasuredStore, per_second},
    open,
};

/// Writes the rows that jobs are, reads them, and counts small commits: no queue, no handlers.
#[derive(clap::Args)]
pub(crate) struct Limit {
    /// How many rows
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=MAX_JOBS))]
    jobs: u64,
    /// How long commits are counted, once by 1 and once by 10 connections
    #[arg(long, value_parser = duration::parse, default_value = "3s")]
    commits_for: Duration,
}

impl Limit {
    pub(crate) async fn measure(&self, store: &MeasuredStore) -> Outcome<Finding> {
        let meter = Meter::open(store).await;
        let client = open::create(&store.url).await?;
        client.migrate().await?;
        client.close().await;
        let plan = Plan { rows: self.jobs, commits_for: self.commits_for };
        let times = match StoreKind::of(&store.url)? {
            StoreKind::Postgres => postgres::measure(&store.url, &plan).await?,
            _ => sqlite::measure(&store.url, &plan)?,
        };
        let costs = meter.costs(&meter.read().await, self.jobs);
        let settings = json!({
            "jobs": self.jobs, "batch": BATCH, "rounds": ROUNDS, "commits_for_seconds": self.commits_for.as_secs_f64(),
        });
        let figures = json!({
            "written_per_second": per_second(self.jobs, times.write),
            "read_per_second": per_second(self.jobs, times.read),
            "written_and_read_per_second": per_second(self.jobs, times.write + times.read),
            "commits_per_second_1": per_second(times.commits[0], self.commits_for),
            "commits_per_second_10": per_second(times.commits[1], self.commits_for),
        });
        let peak_memory = costs.into_iter().filter(|(name, _)| name == "peak_memory_bytes").collect();
        Ok(Finding::new("limit", None, (settings, figures)).costing(peak_memory, None))
    }
}
