use super::timings::CallTimes;
use crate::measure::round;
use std::time::Duration;
use windlass_cli::measure::{peak_memory, per_second};

/// What one drain took.
pub(super) struct Drained {
    pub(super) time: Duration,
    pub(super) own_cpu: f64,
    pub(super) server_cpu: Option<f64>,
}

/// What rounds measured.
pub(crate) struct Rounds {
    /// Calls while a backlog was drained.
    pub(crate) draining: CallTimes,
    /// Calls while jobs came one by one.
    pub(crate) steady: CallTimes,
    /// Jobs per second of each.
    pub(crate) rates: Vec<u64>,
    /// Processor seconds for a million jobs, of this process and of all processes of the server, in each. They hardly
    /// depend on what else the machine does.
    own_cpu: Vec<f64>,
    server_cpu: Vec<f64>,
    /// The most memory of this process during any of them.
    pub(crate) peak_memory: u64,
}

impl Rounds {
    pub(crate) fn new() -> Self {
        let (own_cpu, server_cpu) = (Vec::new(), Vec::new());
        let (draining, steady) = (CallTimes::new(), CallTimes::new());
        Self { draining, steady, rates: Vec::new(), own_cpu, server_cpu, peak_memory: 0 }
    }

    /// Adds a drain of so many jobs, which has just ended.
    pub(super) fn add(&mut self, jobs: u64, drained: &Drained, times: &CallTimes) {
        let per_million = |seconds: f64| round(seconds * 1e6 / jobs as f64);
        self.draining.merge(times);
        self.rates.push(per_second(jobs, drained.time));
        self.own_cpu.push(per_million(drained.own_cpu));
        self.server_cpu.extend(drained.server_cpu.map(per_million));
        self.peak_memory = self.peak_memory.max(peak_memory().unwrap_or(0));
    }

    /// Adds the calls of a worker whose jobs came one by one.
    pub(super) fn add_steady(&mut self, times: &CallTimes) {
        self.steady.merge(times);
    }

    /// The rate in the middle.
    pub(crate) fn median(&self) -> u64 {
        middle(self.rates.iter().map(|&rate| rate as f64)).unwrap_or(0.0) as u64
    }

    /// The highest rate: what the others would have been on a machine that does nothing else.
    pub(crate) fn best(&self) -> u64 {
        self.rates.iter().copied().max().unwrap_or(0)
    }

    /// Processor seconds of this process for a million jobs, in the middle.
    pub(crate) fn own_cpu(&self) -> Option<f64> {
        middle(self.own_cpu.iter().copied())
    }

    /// Those of the server, where there is one on this machine.
    pub(crate) fn server_cpu(&self) -> Option<f64> {
        middle(self.server_cpu.iter().copied())
    }
}

fn middle(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
