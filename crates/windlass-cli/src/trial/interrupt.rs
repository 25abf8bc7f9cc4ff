use crate::failure::{Failure, Outcome};
use std::future::Future;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Runs a trial until its end or until SIGINT or SIGTERM: then it is dropped like at its end, so that no
/// temporary file stays behind.
pub(crate) async fn until_interrupted<T>(trial: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    let mut signals = Signals::listen()?;
    tokio::select! {
        outcome = trial => outcome,
        () = signals.next() => Err(interrupted()),
    }
}

pub(crate) fn interrupted() -> Failure {
    Failure::failed("interrupted", "interrupted before the end; there is nothing to report")
}

/// The signals that ask a process to end.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub(crate) fn listen() -> Outcome<Self> {
        let listen = signal;
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
