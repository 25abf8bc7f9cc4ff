//! What becomes of a job that somebody wants cancelled while it runs.

use crate::job_switch::JobSwitch;
use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::{Sleep, sleep};
use tokio_util::sync::WaitForCancellationFutureOwned;
use windlass_core::{Disposition, Outcome};

/// Notices that the job of a handler that waits is to be cancelled. The handler's token has fired then; when the grace
/// after that is over, its future is to be dropped.
pub(crate) struct Cancellation {
    switch: Arc<JobSwitch>,
    grace: Duration,
    told: Pin<Box<WaitForCancellationFutureOwned>>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Cancellation {
    pub(crate) fn new(switch: Arc<JobSwitch>, grace: Duration) -> Self {
        let told = Box::pin(switch.token.clone().cancelled_owned());
        Self { switch, grace, told, timer: None }
    }

    /// Ready, with the outcome of the attempt, when the handler's future is to be dropped.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        if self.timer.is_none() {
            ready!(self.told.as_mut().poll(cx));
            if !self.switch.is_cancel_asked() {
                // Its time or its worker's is over: others see to that.
                return Poll::Pending;
            }
        }
        let grace = self.grace;
        ready!(self.timer.get_or_insert_with(|| Box::pin(sleep(grace))).as_mut().poll(cx));
        let why =
            || format!("{}; the handler went on for {grace:?} more and was dropped", Disposition::BY_REQUEST);
        Poll::Ready(Outcome::Cancel(self.switch.expired.get_or_init(why).clone()))
    }
}

/// The outcome of an attempt whose job was to be cancelled meanwhile: what ends the job stands, and it does not come back.
pub(crate) fn when_asked(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Retry { error, .. } => Outcome::Cancel(format!("{}: {error}", Disposition::BY_REQUEST)),
        Outcome::Snooze(_) | Outcome::Undecryptable { .. } => {
            Outcome::Cancel(Disposition::BY_REQUEST.to_owned())
        }
        stands => stands,
    }
}
