//! The points of a run side by side.

use super::point_run::{PointRun, Status};
use indicatif::{HumanBytes, HumanCount};
use serde_json::Value;
use std::fmt::Write;
use windlass_cli::{table::table, text::escape};

/// What a point reached, on one line.
pub(super) fn line(run: &PointRun) -> String {
    if run.status != Status::Done {
        return note(run);
    }
    let names = ["jobs/s", "ms p50", "ms p99", "WAL bytes/job"];
    let cells = [rate(run), latency(run, "p50_us"), latency(run, "p99_us"), figure(run, "wal_bytes_per_job")];
    let known = cells.iter().zip(names).filter(|(cell, _)| !cell.is_empty());
    let parts = known.map(|(cell, name)| format!("{cell} {name}"));
    let note = note(run);
    parts.chain((!note.is_empty()).then_some(note)).collect::<Vec<_>>().join(", ")
}

pub(super) fn table_of_points(points: &[PointRun]) -> String {
    let row = |run: &PointRun| {
        vec![
            run.scenario.to_owned(),
            run.point.to_owned(),
            rate(run),
            latency(run, "p50_us"),
            latency(run, "p99_us"),
            figure(run, "wal_bytes_per_job"),
            figure(run, "cpu_seconds_per_million_jobs"),
            figure(run, "server_cpu_seconds_per_million_jobs"),
            run.figure("peak_memory_bytes")
                .and_then(Value::as_u64)
                .map_or(String::new(), |most| HumanBytes(most).to_string()),
            if run.status == Status::Done { note(run) } else { format!("{:?}", run.status).to_lowercase() },
        ]
    };
    let headers = [
        "SCENARIO",
        "POINT",
        ">JOBS/S",
        ">P50 MS",
        ">P99 MS",
        ">WAL B/JOB",
        ">CPU S/M",
        ">SERVER S/M",
        ">MEMORY",
        "",
    ];
    let rows: Vec<_> = points.iter().map(row).collect();
    let legend = "P50 and P99: from enqueue to start, for a burst from the due time, for enqueue of a call.\n\
                  CPU and SERVER: processor seconds for a million jobs, ours and PostgreSQL's.\n";
    let mut text = format!("{}\n{legend}", table(&headers, &rows));
    for run in points.iter().filter(|run| run.status != Status::Done) {
        let _ = writeln!(text, "{}, {}: {}", run.scenario, run.point, note(run));
    }
    text
}

impl PointRun {
    fn figure(&self, name: &str) -> Option<&Value> {
        self.report.as_ref()?.get("figures")?.get(name)
    }
}

/// The rate that the point measures: of jobs completed, or else enqueued.
fn rate(run: &PointRun) -> String {
    let names = ["completed_per_second", "enqueued_per_second"];
    let rate = names.iter().find_map(|name| run.figure(name)?.as_u64());
    rate.map_or(String::new(), |rate| HumanCount(rate).to_string())
}

fn latency(run: &PointRun, quantile: &str) -> String {
    let names = ["latency", "lateness"];
    let enqueue = run.report.as_ref().is_some_and(|report| report["bench"] == "enqueue");
    let us = names
        .iter()
        .chain(enqueue.then_some(&"enqueue_call"))
        .find_map(|name| run.figure(name)?.get(quantile)?.as_f64());
    us.map_or(String::new(), |us| format!("{:.2}", us / 1e3))
}

fn figure(run: &PointRun, name: &str) -> String {
    run.figure(name).and_then(Value::as_f64).map_or(String::new(), |value| format!("{value:.1}"))
}

fn note(run: &PointRun) -> String {
    let figure = |name: &str| run.figure(name).and_then(Value::as_f64);
    match (run.status, &run.reason) {
        (Status::Skipped, Some(reason)) => format!("skipped: {}", escape(reason)),
        (Status::Failed, Some(reason)) => format!("FAILED: {}", escape(reason)),
        _ if behind(run) => "fell behind its schedule".to_owned(),
        _ => {
            let percent =
                figure("of_theoretical_percent").map(|percent| format!("{percent:.1} % of the maximum"));
            let start = || figure("total_ms").map(|ms| format!("{ms:.1} ms from connect to the end"));
            percent.or_else(start).or_else(|| beside(run)).unwrap_or_default()
        }
    }
}

/// How a busy queue fared beside a burden.
fn beside(run: &PointRun) -> Option<String> {
    let (percent, slowest) =
        (run.figure("percent_of_alone")?.as_f64()?, run.figure("steady")?["slowest_ms"].as_f64()?);
    Some(format!("{percent:.0} % of the drain alone, slowest claim or settle {slowest:.1} ms"))
}

/// Whether jobs were sent so late that this machine cannot carry the rate, and latency says nothing.
fn behind(run: &PointRun) -> bool {
    const LATE_US: f64 = 100_000.0;
    let unsent = run.figure("unsent").and_then(Value::as_u64).is_some_and(|unsent| unsent > 0);
    let late = |name: &str| run.figure(name).and_then(|late| late["p90_us"].as_f64());
    unsent || ["sent_late", "load_sent_late"].iter().filter_map(|name| late(name)).any(|us| us > LATE_US)
}
