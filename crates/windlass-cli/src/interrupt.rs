//! Ending on SIGINT and SIGTERM, and when the terminal goes.

use crate::failure::{Failure, Outcome};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Runs `measurement` to its end or until SIGINT, SIGTERM or SIGHUP. It is dropped in both cases, so that no temporary
/// file stays behind.
pub async fn until_interrupted<T>(measurement: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    let mut signals = Signals::listen()?;
    tokio::select! {
        outcome = measurement => outcome,
        () = signals.next() => Err(interrupted()),
    }
}

/// The failure of a command that was interrupted.
pub fn interrupted() -> Failure {
    Failure::failed("interrupted", "interrupted before the end; there is nothing to report")
}

/// The signals that ask a process to end.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// The terminal has gone. Counted once: a shell says it to its jobs, and then the system says it again.
    hangup: Option<Signal>,
}

impl Signals {
    /// Takes them from now on; without this they end the process at once.
    pub fn listen() -> Outcome<Self> {
        let hangup = (!ignores_hangup()).then(|| signal(SignalKind::hangup())).transpose()?;
        Ok(Self { hangup, ..Self::listen_but_hangup()? })
    }

    /// The same for those to whom SIGHUP says something else.
    pub fn listen_but_hangup() -> Outcome<Self> {
        let (interrupt, terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        Ok(Self { interrupt, terminate, hangup: None })
    }

    /// Waits for the next of them.
    pub async fn next(&mut self) {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = hangup => self.hangup = None,
        }
    }
}

/// Whether this process was told not to end with its terminal, as by nohup: who listens to a signal ignores it no more. Only Linux tells without
/// code that we may not write; elsewhere the signal stays what it is.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_none_or(|mask| mask & 1 == 1)
}
