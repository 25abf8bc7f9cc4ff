//! A context that no store knows, for tests of handlers.

use super::Context;
use crate::{
    epoch::{ClaimScope, Epoch},
    outbox::Destination,
};
use bytes::Bytes;
use std::sync::{Arc, PoisonError};
use tokio_util::sync::CancellationToken;
use windlass_core::{Args, ClaimRef, ClaimedJob, HandlerReport, WorkerId};

impl Context {
    /// The args and the context of a job that no store knows, for tests of handlers, and the token that
    /// [tells the handler to stop](Self::cancelled). Its [lease](Self::lease) is worthless; what the handler says of the job is
    /// [kept in it](Self::reported).
    ///
    /// ```
    /// # use windlass_core::{ClaimedJob, JobId};
    /// # use windlass_runtime::Context;
    /// let job = ClaimedJob {
    ///     id: JobId(1), position: 0, kind: "mail.send".into(), args: "{}".into(), attempt: 3, max_attempts: 3,
    ///     crash_count: 0, enqueued_at: jiff::Timestamp::now(), never_put_off: true, attributes: None, expires_in: None,
    /// };
    /// let (_, context, stop) = Context::fake(job, "mail", 0);
    /// assert!(context.is_last_attempt() && !context.is_cancelled());
    /// stop.cancel();
    /// assert!(context.is_cancelled());
    /// context.log("told to stop");
    /// assert_eq!(context.reported().unwrap().log[0].text, "told to stop");
    /// ```
    pub fn fake(job: ClaimedJob, queue: &str, priority: i16) -> (Bytes, Self, CancellationToken) {
        let epoch = Epoch::new(WorkerId(0), Arc::default());
        let stop = epoch.interrupted().clone();
        let now = tokio::time::Instant::now();
        let scope = Arc::new(ClaimScope::new(epoch, ClaimRef(0, 0), queue.into(), priority, now));
        let (args, context) = Self::split(job, scope);
        (args, context, stop)
    }

    /// What the handler has said so far; `None` when the context is no [fake](Self::fake).
    pub fn reported(&self) -> Option<HandlerReport> {
        match &**self.scope.epoch.outbox().destination() {
            Destination::Memory(kept) => Some(kept.lock().unwrap_or_else(PoisonError::into_inner).clone()),
            Destination::Store { .. } => None,
        }
    }

    /// What an earlier attempt left as its [checkpoint](Self::checkpoint), for a [fake](Self::fake).
    pub fn leave_checkpoint(&self, checkpoint: Args) {
        if let Destination::Memory(kept) = &**self.scope.epoch.outbox().destination() {
            kept.lock().unwrap_or_else(PoisonError::into_inner).checkpoint = Some(checkpoint);
        }
    }
}
