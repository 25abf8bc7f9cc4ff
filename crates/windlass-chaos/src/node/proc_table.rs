//! What /proc says about processes.

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

/// A process that cannot be taken for a later one with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) pid: i32,
    /// Clock ticks after the boot.
    started: u64,
}

struct Stat {
    state: char,
    parent: i32,
    started: u64,
}

fn stat(pid: i32) -> Option<Stat> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in parentheses and may hold anything, these too.
    let mut fields = text[text.rfind(')')? + 1..].split_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    let started = fields.nth(17)?.parse().ok()?;
    Some(Stat { state, parent, started })
}

impl Identity {
    /// Whether it still runs. One that waits to be reaped does not.
    pub(crate) fn is_alive(self) -> bool {
        stat(self.pid).is_some_and(|stat| stat.started == self.started && !matches!(stat.state, 'Z' | 'X'))
    }

    /// As `ps` shows it; PostgreSQL's processes write what they do there.
    pub(crate) fn title(self) -> String {
        let bytes = std::fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).trim_end_matches('\0').replace('\0', " ")
    }

    /// Does nothing to one that has ended.
    pub(crate) fn signal(self, signal: Signal) -> Result<()> {
        if let Some(pid) = Pid::from_raw(self.pid).filter(|_| self.is_alive()) {
            match kill_process(pid, signal) {
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(cause) => {
                    return Err(cause).with_context(|| format!("cannot signal process {}", self.pid));
                }
            }
        }
        Ok(())
    }
}

/// The living children of a process, by number.
pub(crate) fn children(parent: i32) -> Result<Vec<Identity>> {
    let mut found: Vec<Identity> = std::fs::read_dir("/proc")?
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let stat = stat(pid)?;
            let is_child = stat.parent == parent && !matches!(stat.state, 'Z' | 'X');
            is_child.then_some(Identity { pid, started: stat.started })
        })
        .collect();
    found.sort_unstable_by_key(|identity| identity.pid);
    Ok(found)
}

/// Bytes that a process holds in memory.
pub(crate) fn rss_bytes(pid: u32) -> Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).context("the process is gone")?;
    let pages: u64 = text.split_whitespace().nth(1).context("no second field in statm")?.parse()?;
    Ok(pages * rustix::param::page_size() as u64)
}
