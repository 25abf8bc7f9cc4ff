#[cfg(feature = "testing")]
mod fake;
mod reports;

pub use reports::CheckpointSeal;

use crate::{epoch::ClaimScope, job_reporter::JobReporter, job_switch::JobSwitch};
use bytes::Bytes;
use jiff::Timestamp;
use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio_util::sync::CancellationToken;
use windlass_core::{Args, Attributes, ClaimedJob, Disposition, JobId, JobLease, Outcome};

/// What a handler knows about its job besides the args, and how it learns that it should stop.
///
/// Cheap to clone. It may outlive the attempt; its [lease](Self::lease) is worthless then.
#[derive(Clone)]
pub struct Context {
    scope: Arc<ClaimScope>,
    /// Of this job alone, once it is needed.
    switch: OnceLock<Arc<JobSwitch>>,
    /// Of this job alone, once its handler says something.
    reporter: OnceLock<Arc<JobReporter>>,
    seal: reports::Seal,
    id: JobId,
    kind: Arc<str>,
    attempt: u16,
    max_attempts: u16,
    crash_count: u16,
    enqueued_at: Timestamp,
    position: i64,
    rare: Option<Arc<Rare>>,
}

/// What only some jobs have.
struct Rare {
    attributes: Attributes,
    /// How long the job may wait to be started, if it expires.
    expires_in: Option<Duration>,
}

impl Context {
    pub(crate) fn split(job: ClaimedJob, scope: Arc<ClaimScope>) -> (Bytes, Self) {
        let ClaimedJob {
            id,
            kind,
            args,
            attempt,
            max_attempts,
            crash_count,
            enqueued_at,
            never_put_off: _,
            position,
            attributes,
            expires_in,
        } = job;
        let rare = attributes.map(|attributes| Arc::new(Rare { attributes: *attributes, expires_in }));
        (
            args,
            Self {
                scope,
                switch: OnceLock::new(),
                reporter: OnceLock::new(),
                seal: reports::Seal::default(),
                id,
                kind,
                attempt,
                max_attempts,
                crash_count,
                enqueued_at,
                position,
                rare,
            },
        )
    }

    /// The job's identity.
    pub fn id(&self) -> JobId {
        self.id
    }

    /// What to do.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The queue that the job came from.
    pub fn queue(&self) -> &str {
        &self.scope.queue
    }

    /// The job's priority; lower runs first.
    pub fn priority(&self) -> i16 {
        self.scope.priority
    }

    /// Which attempt this is, from 1.
    pub fn attempt(&self) -> u16 {
        self.attempt
    }

    /// How many attempts the job has in all.
    pub fn max_attempts(&self) -> u16 {
        self.max_attempts
    }

    /// Whether a failure of this attempt discards the job.
    pub fn is_last_attempt(&self) -> bool {
        self.attempt >= self.max_attempts
    }

    /// How many workers died while they held the job.
    pub fn crash_count(&self) -> u16 {
        self.crash_count
    }

    /// When the job was enqueued, by the store's clock.
    pub fn enqueued_at(&self) -> Timestamp {
        self.enqueued_at
    }

    fn attributes(&self) -> Option<&Attributes> {
        self.rare.as_ref().map(|rare| &rare.attributes)
    }

    /// Whom or what the job is about, if it says so.
    pub fn key(&self) -> Option<&str> {
        self.attributes()?.key.as_deref()
    }

    /// What was said beside the job's args: a JSON object.
    pub fn meta(&self) -> Option<&Args> {
        self.attributes()?.meta.as_ref()
    }

    /// What the job can be found by.
    pub fn tags(&self) -> &[String] {
        self.attributes().map_or(&[], |attributes| &attributes.tags)
    }

    /// From when on the job would not have been started any more, by the store's clock, if it says so.
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.attributes()?.expires_at
    }

    /// Whether the handler should stop: somebody [cancelled](windlass_core::JobStore::cancel) the job, the worker shuts
    /// down and its grace period is over, the store took the job away, or the attempt took longer than its
    /// [timeout](crate::Handler::timeout). Its future is dropped soon after.
    pub fn is_cancelled(&self) -> bool {
        self.token().is_cancelled()
    }

    /// Whether the handler should stop because somebody [cancelled](windlass_core::JobStore::cancel) the job. It may
    /// still complete; an error or a snooze ends the job as cancelled.
    pub fn is_cancel_requested(&self) -> bool {
        self.scope.is_cancel_asked(self.id)
    }

    /// Waits until [`Self::is_cancelled`].
    pub async fn cancelled(&self) {
        self.token().cancelled().await;
    }

    fn token(&self) -> &CancellationToken {
        &self.switch().token
    }

    /// What tells this job alone to stop.
    pub(crate) fn switch(&self) -> &Arc<JobSwitch> {
        self.switch.get_or_init(|| self.scope.switch(self.id))
    }

    /// The same, if there is one.
    pub(crate) fn known_switch(&self) -> Option<&Arc<JobSwitch>> {
        if self.switch.get().is_none() {
            let known = self.scope.known_switch(self.id)?;
            self.switch.get_or_init(|| known);
        }
        self.switch.get()
    }

    /// As [`Self::is_cancelled`], at less cost for jobs that nobody tells anything.
    pub(crate) fn should_stop(&self) -> bool {
        self.scope.should_stop(self.id)
    }

    /// What the job has in common with others of its claim.
    pub(crate) fn scope(&self) -> &Arc<ClaimScope> {
        &self.scope
    }

    /// What becomes of a job that is too late to be started now, though its handler was called.
    pub(crate) fn expired_outcome(&self) -> Option<Outcome> {
        let (left, at) = (self.rare.as_ref()?.expires_in?, self.expires_at()?);
        match Disposition::expired(at) {
            Disposition::Cancel { reason } if self.scope.is_over(left) => Some(Outcome::Cancel(reason)),
            _ => None,
        }
    }

    /// The error that the attempt ends with because its time, or its job's, and the grace after it are over, and its
    /// future is about to be dropped: it is polled once more then. For what wraps handlers and wants to see that: it
    /// drops the handler's future and returns this.
    pub fn expired(&self) -> Option<&str> {
        self.known_switch()?.expired.get().map(String::as_str)
    }

    /// Proof that this worker holds the job, to complete it inside a transaction of your own.
    pub fn lease(&self) -> JobLease {
        JobLease {
            worker: self.scope.epoch.worker(),
            claim: self.scope.reference,
            job: self.id,
            position: self.position,
        }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("id", &self.id)
            .field("kind", &self.kind)
            .field("queue", &self.scope.queue)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}
