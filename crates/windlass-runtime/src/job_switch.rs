use crate::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;
use tokio_util::sync::CancellationToken;

/// What tells the handler of one job to stop, apart from all others. Jobs whose handler neither waits nor asks have
/// none; they share the token of their epoch.
#[derive(Debug)]
pub(crate) struct JobSwitch {
    /// Fires when the epoch's does, too.
    pub(crate) token: CancellationToken,
    /// Set when the handler has to end now: the error that its attempt fails with.
    pub(crate) expired: OnceLock<String>,
    cancel_asked: AtomicBool,
}

impl JobSwitch {
    pub(crate) fn new(epoch: &CancellationToken) -> Self {
        Self { token: epoch.child_token(), expired: OnceLock::new(), cancel_asked: AtomicBool::new(false) }
    }

    /// Whether somebody wants the job cancelled.
    pub(crate) fn is_cancel_asked(&self) -> bool {
        self.cancel_asked.load(Ordering::Acquire)
    }

    /// Tells the job's handler to stop because the job is to be cancelled; one that is not started will not be.
    pub(crate) fn cancel(&self) {
        self.cancel_asked.store(true, Ordering::Release);
        self.token.cancel();
    }
}
