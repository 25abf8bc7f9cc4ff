use crate::measure::{Counters, ServerGauge, round};
use serde_json::{Map, Value};
use std::fs;
use windlass_cli::measure::{MeasuredStore, cpu_seconds, peak_memory};

/// Reads what a measurement costs, at its start and its end.
pub(crate) struct Meter {
    gauge: ServerGauge,
    start: Reading,
    commits: Option<u64>,
}

/// The counters of this process and of the server at one time.
#[derive(Clone, Copy)]
pub(crate) struct Reading {
    server: Counters,
    cpu_seconds: f64,
}

impl Meter {
    /// Open it before any client: all sessions that begin later are counted as ours.
    pub(crate) async fn open(store: &MeasuredStore) -> Self {
        forget_peak_memory();
        let gauge = ServerGauge::open(&store.url).await;
        let commits = gauge.commits().await;
        let start = read(&gauge).await;
        Self { gauge, start, commits }
    }

    /// Lets [`Self::costs`] count from now on; commits are still counted from [`Self::open`] on.
    pub(crate) async fn restart(&mut self) {
        self.start = self.read().await;
    }

    pub(crate) async fn read(&self) -> Reading {
        read(&self.gauge).await
    }

    /// What `jobs` jobs cost from the start to `end`, without what the system or the store does not report.
    pub(crate) fn costs(&self, end: &Reading, jobs: u64) -> Map<String, Value> {
        end.since(&self.start, jobs, 0.0)
    }

    /// How many commits the whole measurement made for each job. Call it when all clients are closed.
    pub(crate) async fn commits_per_job(&self, jobs: u64) -> Option<f64> {
        let commits = self.gauge.commits().await?.checked_sub(self.commits?)?;
        Some(each(commits as f64, jobs))
    }
}

async fn read(gauge: &ServerGauge) -> Reading {
    Reading { server: gauge.counters().await, cpu_seconds: cpu_seconds() }
}

impl Reading {
    /// What was spent between two readings. `more_cpu` is the processor time of the worker processes.
    pub(crate) fn since(&self, start: &Self, jobs: u64, more_cpu: f64) -> Map<String, Value> {
        let difference = |now: Option<u64>, then: Option<u64>| Some(now? - then?.min(now?));
        let per_job = |now, then| difference(now, then).map(|spent| each(spent as f64, jobs).into());
        let own = self.cpu_seconds - start.cpu_seconds + more_cpu;
        let server = self.server.cpu_seconds.zip(start.server.cpu_seconds).map(|(now, then)| now - then);
        let per_million = |seconds: f64| Value::from(round(seconds * 1e6 / jobs.max(1) as f64));
        let figures: [(&str, Option<Value>); 6] = [
            ("wal_bytes_per_job", per_job(self.server.wal_bytes, start.server.wal_bytes)),
            ("writing_transactions_per_job", per_job(self.server.writes, start.server.writes)),
            ("cpu_seconds", Some(round(own).into())),
            ("cpu_seconds_per_million_jobs", Some(per_million(own))),
            ("server_cpu_seconds_per_million_jobs", server.map(per_million)),
            ("peak_memory_bytes", peak_memory().map(Value::from)),
        ];
        figures.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}

/// Lets [`peak_memory`] count from now on. Where the system refuses that, it counts from the start of the process.
pub(crate) fn forget_peak_memory() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// An amount per job: three digits, or six behind the point for an amount below 1, such as shared commits.
fn each(amount: f64, jobs: u64) -> f64 {
    let each = amount / jobs.max(1) as f64;
    if each < 1.0 { (each * 1e6).round() / 1e6 } else { round(each) }
}
