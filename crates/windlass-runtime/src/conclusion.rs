use crate::{
    cancellation::when_asked,
    caught,
    core::Core,
    disposition::{Attempt, Settlement, completed, decide},
    ending::Ending,
    epoch::ClaimScope,
    job_switch::JobSwitch,
    last_handler::Found,
    meter::Begun,
};
use std::{sync::Arc, time::Duration};
use tracing::warn;
use windlass_core::{Args, Disposition, JobId, Outcome, RetryPolicy};

/// The most bytes of an error that are logged.
const MOST_LOGGED: usize = 1_000;

/// How an attempt ended.
pub(crate) enum Ended {
    Outcome(Outcome),
    Panic(String),
    /// In a failure after its time was over.
    TimedOut(Outcome),
    /// Not begun: it is too late, or somebody wants the job cancelled.
    Instead(Disposition),
    /// Not begun, or dropped half-way because the job was taken from this worker.
    NotRun,
}

impl Ended {
    /// Whether the handler ran to an end, whatever that was.
    pub(crate) fn ran(&self) -> bool {
        !matches!(self, Self::NotRun | Self::Instead(_))
    }

    /// Notes how long the job waited and ran, unless it goes back as if it had not. Before [`Ending::settlement`].
    pub(crate) fn note(&self, core: &Core, scope: &ClaimScope, id: JobId, begun: Option<Box<Begun>>) {
        if let Some(begun) = begun.filter(|_| self.ran() && !scope.goes_back(id)) {
            core.meter.note(&scope.queue, &begun);
        }
    }
}

impl Ending {
    /// The handler map panicked.
    pub(crate) fn without_handler(&self, core: &Core, error: String) -> Settlement {
        self.decide(core, Outcome::Retry { after: None, error }, &core.config.retry_policy, false)
    }

    /// How a job is settled whose handler has said everything: nothing is to tell it to stop any more.
    pub(crate) fn settlement(
        &self,
        core: &Core,
        scope: &ClaimScope,
        found: &Found,
        ended: Ended,
    ) -> Settlement {
        let switch = scope.forget_switch(self.id);
        let switch = switch.as_deref();
        if switch.is_some_and(JobSwitch::goes_back) {
            return Settlement::by_itself(Disposition::Return);
        }
        let cancelled = switch.is_some_and(JobSwitch::is_cancel_asked);
        let (outcome, interrupted) = match ended {
            Ended::Outcome(Outcome::Complete(result)) => {
                let settlement = self.completed(result);
                self.tell(core, &scope.queue, &found.kind, &settlement);
                return settlement;
            }
            Ended::Outcome(outcome) => (outcome, scope.epoch.interrupted().is_cancelled()),
            Ended::Panic(error) => (Outcome::Retry { after: None, error }, false),
            Ended::TimedOut(failure) => (failure, false),
            Ended::Instead(instead) => return Settlement::by_itself(instead),
            Ended::NotRun => return Settlement::by_itself(Disposition::Return),
        };
        let outcome = if cancelled { when_asked(outcome) } else { outcome };
        let policy = self.own_policy.unwrap_or_else(|| policy_of(core, found, self.id));
        let outcome = match outcome {
            Outcome::Retry { after: None, error } if self.own_policy.is_none() && !interrupted => {
                Outcome::Retry { after: delay_of(found, self.id, self.number, &error), error }
            }
            other => other,
        };
        let settlement = self.decide(core, outcome, &policy, interrupted);
        self.tell(core, &scope.queue, &found.kind, &settlement);
        settlement
    }

    /// Whoever asked the job to stop, and whatever it is tried again by: nothing else is looked at, which was a twentieth of what a job with a small
    /// result cost the worker.
    fn completed(&self, result: Option<Args>) -> Settlement {
        match result {
            None if !self.tracked => Settlement::WithClaim,
            result => Settlement::by_itself(completed(result)),
        }
    }

    /// What did not go well, in the log and counted by cause: the store keeps the whole text.
    fn tell(&self, core: &Core, queue: &Arc<str>, kind: &Arc<str>, settlement: &Settlement) {
        let (job, attempt) = (self.id, self.number);
        if let Some(error) = settlement.failure() {
            core.meter.note_failure(queue, kind, job, error);
        }
        match settlement.disposition() {
            Some(Disposition::Retry { delay, error }) => {
                warn!(%job, kind = &**kind, attempt, error = start_of(error), ?delay, "an attempt failed; there is another after the delay");
            }
            Some(Disposition::Discard { error, .. }) => {
                warn!(%job, kind = &**kind, attempt, error = start_of(error), "a job failed for good; it is discarded");
            }
            _ => {}
        }
    }

    /// The same for a job that something outside the engine ran; `policy` holds where the job has none of its own.
    pub(crate) fn outside(
        &self,
        outcome: Outcome,
        policy: &RetryPolicy,
        random: f64,
        cancelled: bool,
    ) -> Settlement {
        let outcome = match outcome {
            Outcome::Complete(result) => return self.completed(result),
            other => other,
        };
        let outcome = if cancelled { when_asked(outcome) } else { outcome };
        let (number, max_attempts) = (self.number, self.max_attempts);
        let policy = self.own_policy.as_ref().unwrap_or(policy);
        Settlement::by_itself(decide(
            outcome,
            &Attempt { number, max_attempts, policy, random, interrupted: false },
        ))
    }

    fn decide(&self, core: &Core, outcome: Outcome, policy: &RetryPolicy, interrupted: bool) -> Settlement {
        let (number, max_attempts, random) = (self.number, self.max_attempts, (core.config.random)());
        let attempt = Attempt { number, max_attempts, policy, random, interrupted };
        Settlement::by_itself(decide(outcome, &attempt))
    }
}

/// What of an error goes to the log.
fn start_of(error: &str) -> &str {
    let end = (0..=MOST_LOGGED.min(error.len())).rev().find(|end| error.is_char_boundary(*end));
    &error[..end.unwrap_or(0)]
}

/// The retry policy of the job's kind.
fn policy_of(core: &Core, found: &Found, id: JobId) -> RetryPolicy {
    let policy = caught(|| found.handler.retry_policy().copied()).unwrap_or_else(|panic| {
        warn!(%id, panic, "the handler's retry policy cannot be had; the worker's is used");
        None
    });
    policy.unwrap_or(core.config.retry_policy)
}

/// What the kind's own function says about the delay, if it has one.
fn delay_of(found: &Found, id: JobId, attempt: u16, error: &str) -> Option<Duration> {
    caught(|| found.handler.retry_delay(attempt, error)).unwrap_or_else(|panic| {
        warn!(%id, panic, "the handler's retry delay cannot be had; its retry policy is used");
        None
    })
}
