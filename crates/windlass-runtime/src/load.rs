//! What a worker says of itself to people: what it runs, what its process uses, and how much it gets done.

use std::{env, fs, time::Duration};
use tokio::time::Instant;
use windlass_core::{Load, Program};

/// What workers of this library are.
pub(crate) const ENGINE: &str = concat!("Rust ", env!("CARGO_PKG_VERSION"));

/// This program: the name of its file, and the version that its environment names.
pub(crate) fn this_program() -> Program {
    let file = env::current_exe().ok();
    let name =
        file.as_ref().and_then(|file| file.file_stem()).and_then(|name| name.to_str()).map(str::to_owned);
    Program {
        // A name that cannot be noted is none; a version that cannot is an option that somebody set.
        name: name.filter(|name| Program { name: Some(name.clone()), ..Program::default() }.check().is_ok()),
        app_version: env::var("WINDLASS_APP_VERSION").ok().filter(|version| !version.is_empty()),
        engine: Some(ENGINE.to_owned()),
    }
}

/// The memory of this process that is resident, where the system says so as Linux does.
pub(crate) fn resident_memory() -> Option<u64> {
    resident(&fs::read_to_string("/proc/self/status").ok()?)
}

fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// How many jobs are settled per second.
#[derive(Debug)]
pub(crate) struct Pace {
    since: Instant,
    settled: u64,
    last: Option<f64>,
}

impl Pace {
    /// Over less time a rate says nothing.
    const SHORTEST: Duration = Duration::from_secs(1);

    pub(crate) fn new() -> Self {
        Self { since: Instant::now(), settled: 0, last: None }
    }

    /// How many lately, of a worker that settled so many by now.
    pub(crate) fn of(&mut self, settled: u64) -> Option<f64> {
        let passed = self.since.elapsed();
        if passed >= Self::SHORTEST {
            self.last = Some(settled.saturating_sub(self.settled) as f64 / passed.as_secs_f64());
            (self.since, self.settled) = (Instant::now(), settled);
        }
        self.last
    }
}

/// The load of a worker that runs elsewhere: it says what it uses, what it settled is counted here.
#[derive(Debug)]
pub(crate) struct LoadElsewhere {
    pace: Pace,
    pub(crate) settled: u64,
    pub(crate) memory_bytes: Option<u64>,
}

impl LoadElsewhere {
    pub(crate) fn new() -> Self {
        Self { pace: Pace::new(), settled: 0, memory_bytes: None }
    }

    pub(crate) fn now(&mut self) -> Load {
        Load { memory_bytes: self.memory_bytes, jobs_per_second: self.pace.of(self.settled) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_as_linux_writes_it() {
        assert_eq!(resident("Name:\tx\nVmHWM:\t  9 kB\nVmRSS:\t    2048 kB\nThreads:\t1\n"), Some(2 << 20));
        assert_eq!(resident("Name:\tx\n"), None);
        assert_eq!(resident_memory().is_some(), cfg!(target_os = "linux"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_pace_is_of_the_time_since_it_was_asked_last() {
        let mut pace = Pace::new();
        assert_eq!(pace.of(5), None, "no time has passed");
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(pace.of(50), Some(5.0));
        tokio::time::advance(Duration::from_millis(20)).await;
        assert_eq!(pace.of(60), Some(5.0), "a heartbeat that was asked for");
        tokio::time::advance(Duration::from_millis(9_980)).await;
        assert_eq!(pace.of(70), Some(2.0));
    }
}
