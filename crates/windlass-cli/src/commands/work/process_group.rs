//! A program that runs in a process group of its own, so that what it started ends with it.

use rustix::process::{Pid, Signal, kill_process_group};
use std::time::Duration;
use tokio::{process::Child, time::timeout};

/// How long a program that was told to stop may take before it is killed.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// A program that runs, with everything it started: dropped before its end, all of it is killed.
pub(super) struct Running(pub(super) Child);

impl Running {
    pub(super) fn signal(&self, signal: Signal) {
        // Without an id the program was waited for, and its number may be somebody else's by now.
        let leader = self.0.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        if let Some(leader) = leader {
            // It fails when all of them ended just now, which is what was wanted.
            let _ = kill_process_group(leader, signal);
        }
    }

    /// Asks the program to stop and waits; kills it when it takes too long.
    pub(super) async fn stop(&mut self) {
        self.signal(Signal::TERM);
        if timeout(STOP_GRACE, self.0.wait()).await.is_err() {
            self.signal(Signal::KILL);
            // The next wait reports it, or the drop reaps it.
            let _ = self.0.wait().await;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// A signal, as people know it.
pub(super) fn name_of(signal: i32) -> String {
    let known = [
        (Signal::HUP, "SIGHUP"),
        (Signal::INT, "SIGINT"),
        (Signal::QUIT, "SIGQUIT"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::KILL, "SIGKILL"),
        (Signal::SEGV, "SIGSEGV"),
        (Signal::PIPE, "SIGPIPE"),
        (Signal::TERM, "SIGTERM"),
    ];
    let name = known.iter().find(|known| known.0.as_raw() == signal).map(|known| known.1);
    name.map_or_else(|| signal.to_string(), |name| format!("{signal} ({name})"))
}
