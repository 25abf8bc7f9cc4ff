use crate::{measure::LatencyReport, text::escape};
use indicatif::{HumanBytes, HumanCount};
use serde::Serialize;
use std::fmt::Write;

/// What the demo found.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) jobs: u64,
    pub(super) concurrency: usize,
    pub(super) store: String,
    pub(super) place: String,
    pub(super) durability: &'static str,
    pub(super) enqueued_seconds: f64,
    pub(super) enqueued_per_second: u64,
    pub(super) completed_seconds: f64,
    pub(super) completed_per_second: u64,
    pub(super) latency: LatencyReport,
    pub(super) cpu_seconds: f64,
    pub(super) peak_memory_bytes: Option<u64>,
    pub(super) size_bytes: u64,
    pub(super) verified: bool,
}

impl Report {
    pub(super) fn text(&self) -> String {
        let speed = |seconds: f64, rate: u64| format!("{} jobs/s ({seconds:.2} s)", HumanCount(rate));
        let lines = [
            (
                "store",
                Some(format!("{} in {}, {}", escape(&self.store), escape(&self.place), self.durability)),
            ),
            ("enqueued", Some(speed(self.enqueued_seconds, self.enqueued_per_second))),
            ("completed", Some(speed(self.completed_seconds, self.completed_per_second))),
            ("latency", Some(self.latency.text())),
            ("processor", Some(format!("{:.1} s", self.cpu_seconds))),
            ("memory", self.peak_memory_bytes.map(|most| format!("{} at most", HumanBytes(most)))),
            ("size", Some(HumanBytes(self.size_bytes).to_string())),
        ];
        let jobs = HumanCount(self.jobs);
        let mut text = format!("{jobs} jobs, {} at once: each exactly once, verified\n\n", self.concurrency);
        for (name, value) in lines {
            if let Some(value) = value {
                let _ = writeln!(text, "{name:<11}{value}");
            }
        }
        text
    }
}
