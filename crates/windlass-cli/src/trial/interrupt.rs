use crate::failure::{Failure, Outcome};
use std::future::Future;
use tokio::signal::unix::{SignalKind, signal};

/// Runs a trial until its end or until SIGINT or SIGTERM: then it is dropped like at its end, so that no
/// temporary file stays behind.
pub(crate) async fn until_interrupted<T>(trial: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::select! {
        outcome = trial => outcome,
        _ = interrupt.recv() => Err(interrupted()),
        _ = terminate.recv() => Err(interrupted()),
    }
}

fn interrupted() -> Failure {
    Failure::failed("interrupted", "interrupted before the end; there is nothing to report")
}
