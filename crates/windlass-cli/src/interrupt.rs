//! Ending on SIGINT and SIGTERM.

use crate::failure::{Failure, Outcome};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Runs `measurement` to its end or until SIGINT or SIGTERM. It is dropped in both cases, so that no temporary
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
}

impl Signals {
    /// Takes them from now on; without this they end the process at once.
    pub fn listen() -> Outcome<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for the next of them.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
