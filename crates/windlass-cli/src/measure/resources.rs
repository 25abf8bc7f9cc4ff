use std::fs;

/// Processor time that this process used, all threads, user and system. `None` where there is no `/proc`.
pub(crate) fn cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let ticks = super::server_cpu::stat_numbers(&stat, 14..=15)?;
    Some(ticks.iter().sum::<u64>() as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// The most memory that this process had since [`forget_peak_memory`], in bytes. `None` where there is no
/// `/proc`.
pub(crate) fn peak_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

/// Lets [`peak_memory`] count from now on. Where that is refused it counts from the start of the process.
pub(crate) fn forget_peak_memory() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_process_uses_something() {
        assert!(peak_memory().unwrap() > 100_000);
        assert!(cpu_seconds().unwrap() >= 0.0);
    }
}
