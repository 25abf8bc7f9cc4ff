use crate::job_switch::JobSwitch;
use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::{Instant, Sleep, sleep};
use windlass_core::Outcome;

/// The time that one attempt has. When it is over the handler is told to stop; when the grace after that is
/// over, too, its future is to be dropped.
///
/// Only attempts that have a limit make one, and only those that wait arm its timer.
pub(crate) struct TimeLimit {
    limit: Duration,
    grace: Duration,
    started: Instant,
    switch: Arc<JobSwitch>,
    timer: Option<Pin<Box<Sleep>>>,
    /// Nobody has taken the job yet.
    on_offer: bool,
    is_over: bool,
}

impl TimeLimit {
    /// Begins now.
    pub(crate) fn new(limit: Duration, grace: Duration, switch: Arc<JobSwitch>) -> Self {
        Self { limit, grace, started: Instant::now(), switch, timer: None, on_offer: false, is_over: false }
    }

    /// Ready, with the outcome of the attempt, when the handler's future is to be dropped.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        if self.timer.is_none() {
            if self.switch.is_on_offer() {
                self.on_offer = true;
                return Poll::Pending;
            }
            if std::mem::take(&mut self.on_offer) {
                self.started = Instant::now();
            }
        }
        loop {
            let left = || Box::pin(sleep(self.limit.saturating_sub(self.started.elapsed())));
            ready!(self.timer.get_or_insert_with(left).as_mut().poll(cx));
            if std::mem::replace(&mut self.is_over, true) {
                break;
            }
            self.switch.token.cancel();
            self.timer = Some(Box::pin(sleep(self.grace)));
        }
        let why = format!("the handler went on for {:?} more and was dropped", self.grace);
        let error = self.switch.expired.get_or_init(|| text(self.limit, &why)).clone();
        Poll::Ready(Outcome::Retry { after: None, error })
    }

    /// Whether the handler was told to stop because its time was over.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// How an attempt fails that ended in this error after its time was over.
    pub(crate) fn failure(&self, after: Option<Duration>, error: &str) -> Outcome {
        let says_so = self.switch.expired.get().is_some_and(|expired| expired == error);
        let error = if says_so { error.to_owned() } else { text(self.limit, error) };
        Outcome::Retry { after, error }
    }
}

/// The error of an attempt that ended in this one after its time was over.
pub(crate) fn text(limit: Duration, error: &str) -> String {
    format!("timeout after {limit:?}: {error}")
}
