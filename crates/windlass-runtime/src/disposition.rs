use crate::backoff::spread;
use std::time::Duration;
use windlass_core::{Args, Disposition, Limits, Outcome, RetryPolicy};

/// How a finished job is settled.
#[derive(Debug, PartialEq)]
pub(crate) enum Settlement {
    /// Completed, together with the other completed jobs of its claim.
    WithClaim,
    /// In an entry of its own, with this disposition. Apart: what is handed on after each job is small.
    ByItself(Box<Disposition>),
}

impl Settlement {
    pub(crate) fn by_itself(disposition: Disposition) -> Self {
        Self::ByItself(Box::new(disposition))
    }

    /// The disposition of one that is settled by itself.
    pub(crate) fn disposition(&self) -> Option<&Disposition> {
        match self {
            Self::WithClaim => None,
            Self::ByItself(disposition) => Some(disposition),
        }
    }

    /// The error of an attempt that failed, or of a job that is given up.
    pub(crate) fn failure(&self) -> Option<&str> {
        match self.disposition() {
            Some(Disposition::Retry { error, .. } | Disposition::Discard { error, .. }) => Some(error),
            _ => None,
        }
    }
}

/// What the disposition depends on, besides the outcome.
pub(crate) struct Attempt<'a> {
    pub(crate) number: u16,
    pub(crate) max_attempts: u16,
    pub(crate) policy: &'a RetryPolicy,
    /// In 0..1, for the jitter.
    pub(crate) random: f64,
    /// Whether the handler had been told to stop.
    pub(crate) interrupted: bool,
}

/// The rules by which the disposition follows from what the handler said, for a job that is settled by itself.
pub(crate) fn decide(outcome: Outcome, attempt: &Attempt<'_>) -> Disposition {
    match outcome {
        Outcome::Complete(result) => completed(result),
        // A handler that gives up because it was told to stop did not fail.
        Outcome::Retry { after: None, .. } if attempt.interrupted => Disposition::Return,
        Outcome::Retry { after, error } => failed(after, &error, attempt),
        Outcome::Snooze(delay) => Disposition::Snooze { delay: delay.min(Limits::LONGEST) },
        Outcome::Undecryptable { after, error } => Disposition::Undecryptable {
            delay: spread(after.min(Limits::LONGEST), attempt.random).min(Limits::LONGEST),
            error: Limits::storable_error(&error),
        },
        Outcome::Cancel(reason) => Disposition::Cancel { reason: Limits::storable_error(&reason) },
        Outcome::Discard(error) => {
            Disposition::Discard { error: Limits::storable_error(&error), failed: false }
        }
        // A kind of outcome that is newer than this engine: keep the job rather than guess.
        other => failed(None, &format!("the engine does not know the outcome {other:?}"), attempt),
    }
}

/// A result that is too large discards the job: the handler would return it again.
pub(crate) fn completed(result: Option<Args>) -> Disposition {
    match result.as_ref().map(Args::len) {
        Some(size) if size > Limits::MAX_RESULT_BYTES => {
            let most = Limits::MAX_RESULT_BYTES;
            let error = format!(
                "the result is {size} bytes, the limit is {most}; store large data elsewhere and return a reference"
            );
            Disposition::Discard { error, failed: true }
        }
        _ => Disposition::Complete { result },
    }
}

fn failed(after: Option<Duration>, error: &str, attempt: &Attempt<'_>) -> Disposition {
    let error = Limits::storable_error(error);
    if attempt.number >= attempt.max_attempts {
        return Disposition::Discard { error, failed: true };
    }
    let delay = after.unwrap_or_else(|| attempt.policy.delay(attempt.number, attempt.random));
    Disposition::Retry { delay: delay.min(Limits::LONGEST), error }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide_at(outcome: Outcome, number: u16, interrupted: bool) -> Disposition {
        let policy = &RetryPolicy::default();
        decide(outcome, &Attempt { number, max_attempts: 3, policy, random: 0.5, interrupted })
    }

    fn retry(after: Option<u64>) -> Outcome {
        Outcome::Retry { after: after.map(Duration::from_secs), error: "a\0b".into() }
    }

    #[test]
    fn a_failure_is_retried_until_the_attempts_are_used_up() {
        let (delay, error) = (Duration::from_secs(30), "a\u{fffd}b".to_owned());
        let again = |delay| Disposition::Retry { delay, error: error.clone() };
        assert_eq!(decide_at(retry(None), 2, false), again(delay));
        assert_eq!(decide_at(retry(Some(7)), 2, false), again(Duration::from_secs(7)));
        assert_eq!(decide_at(retry(Some(u64::MAX)), 1, false), again(Limits::LONGEST));
        let dead = Disposition::Discard { error: error.clone(), failed: true };
        assert_eq!(decide_at(retry(Some(7)), 3, false), dead);
    }

    #[test]
    fn giving_up_on_request_uses_up_no_attempt() {
        assert_eq!(decide_at(retry(None), 3, true), Disposition::Return);
        assert_eq!(decide_at(Outcome::Complete(None), 3, true), Disposition::Complete { result: None });
    }

    #[test]
    fn decisions_of_the_handler_stand() {
        let delay = Duration::from_secs(1);
        assert_eq!(decide_at(Outcome::Snooze(delay), 3, false), Disposition::Snooze { delay });
        assert_eq!(
            decide_at(Outcome::Discard("x".into()), 1, false),
            Disposition::Discard { error: "x".into(), failed: false }
        );
        assert_eq!(
            decide_at(Outcome::Cancel("x".into()), 1, false),
            Disposition::Cancel { reason: "x".into() }
        );
    }

    #[test]
    fn a_missing_key_uses_up_no_attempt() {
        let outcome = |after| Outcome::Undecryptable { after, error: "no\0key".into() };
        let waits = |delay| Disposition::Undecryptable { delay, error: "no\u{fffd}key".into() };
        for (number, interrupted) in [(1, false), (3, false), (3, true)] {
            let decided = decide_at(outcome(Duration::from_secs(7)), number, interrupted);
            assert_eq!(decided, waits(Duration::from_secs(7)));
        }
        assert_eq!(decide_at(outcome(Duration::MAX), 3, false), waits(Limits::LONGEST));
    }

    #[test]
    fn a_result_is_bounded() {
        let text = |bytes: usize| Outcome::complete_with(&"x".repeat(bytes - 2));
        let Disposition::Complete { result: Some(result) } =
            decide_at(text(Limits::MAX_RESULT_BYTES), 1, false)
        else {
            panic!("refused");
        };
        assert_eq!(result.len(), Limits::MAX_RESULT_BYTES);
        let refused = decide_at(text(Limits::MAX_RESULT_BYTES + 1), 1, false);
        assert!(matches!(refused, Disposition::Discard { failed: true, .. }), "{refused:?}");
    }
}
