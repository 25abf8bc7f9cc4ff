//! Counters: how many jobs ended in which way, minute by minute.

use crate::{Error, ErrorKind, EventType, Limits, Result, millis};
use jiff::Timestamp;
use serde::{Serialize, Serializer};
use std::time::Duration;

/// Which counters to read: those of the time up to now, by the store's clock.
///
/// ```
/// use std::time::Duration;
/// use windlass_core::{EventType, HistoryRequest};
///
/// let mut request = HistoryRequest::last(Duration::from_secs(3600));
/// request.outcome = Some(EventType::Failed);
/// request.check().unwrap();
/// request.step = Duration::from_secs(90);
/// assert!(request.check().unwrap_err().to_string().contains("whole minutes"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HistoryRequest {
    /// How far back, up to [`Self::LONGEST`]. The minute in which it begins is there as a whole.
    pub last: Duration,
    /// How much time one count is of: whole minutes, which are counted from 1970 on, so that steps of an hour begin with the hour (UTC).
    pub step: Duration,
    /// Only of this queue.
    pub queue: Option<String>,
    /// Only of this kind.
    pub kind: Option<String>,
    /// Only of what ended so.
    pub outcome: Option<EventType>,
}

impl HistoryRequest {
    /// How long counters are kept: 30 days.
    pub const LONGEST: Duration = Duration::from_secs(30 * 86_400);
    /// The shortest step.
    pub const MINUTE: Duration = Duration::from_secs(60);
    /// The most counts that one answer has.
    pub const MOST: usize = 100_000;
    /// The most counters that one minute has; what there is beyond counts together, see [`Count::queue`].
    pub const MOST_IN_A_MINUTE: usize = 1_000;
    /// What is counted: every [event](EventType) of a job but that it was enqueued or started.
    pub const OUTCOMES: [EventType; 9] = [
        EventType::Completed,
        EventType::Failed,
        EventType::Retried,
        EventType::Snoozed,
        EventType::Cancelled,
        EventType::Discarded,
        EventType::Rescued,
        EventType::Returned,
        EventType::Deleted,
    ];

    /// All counters of so much time, minute by minute.
    pub const fn last(last: Duration) -> Self {
        Self { last, step: Self::MINUTE, queue: None, kind: None, outcome: None }
    }

    /// Checks the values; a store calls this first.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`], which names the value.
    pub fn check(&self) -> Result<()> {
        let refuse = |message: String| Err(Error::new(ErrorKind::InvalidOption, message));
        Limits::check_no_nul("a queue or a kind", self.queue.iter().chain(&self.kind))?;
        if self.last.is_zero() {
            return refuse("history goes back for some time, up to 30 days, got 0 s".to_owned());
        }
        if self.last > Self::LONGEST {
            return refuse(format!("history goes back for up to 30 days, got {:?}", self.last));
        }
        let (seconds, rest) = (self.step.as_secs(), self.step.subsec_nanos());
        if seconds == 0 || seconds % 60 > 0 || rest > 0 || self.step > Self::LONGEST {
            let got = if self.step.is_zero() { "0 s".to_owned() } else { format!("{:?}", self.step) };
            return refuse(format!("a step of history is of whole minutes, up to 30 days, got {got}"));
        }
        match self.outcome {
            Some(outcome) if !Self::OUTCOMES.contains(&outcome) => {
                let known = Self::OUTCOMES.map(EventType::as_str).join(", ");
                refuse(format!("{outcome} is not counted; the outcome is one of {known}"))
            }
            _ => Ok(()),
        }
    }

    /// The error of a store that has more than [`Self::MOST`] counts to answer with.
    pub fn too_much() -> Error {
        let message = format!(
            "more than {} counts; ask for less time, a longer step, or one queue or kind",
            Self::MOST
        );
        Error::new(ErrorKind::InvalidOption, message)
    }
}

/// What the counters say. What ended was counted once, whichever workers died meanwhile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct History {
    /// How much time each count is of.
    #[serde(rename = "step_ms", with = "millis")]
    pub step: Duration,
    /// What ended before this is counted, but for what was not committed by then; what ended later may be in part. The worker that leads counts every few seconds, and
    /// later while there is much to do.
    pub counted_until: Timestamp,
    /// By time, queue, kind and outcome; there are none of 0.
    pub counts: Vec<Count>,
}

impl History {
    /// These counts.
    pub fn new(step: Duration, counted_until: Timestamp, counts: Vec<Count>) -> Self {
        Self { step, counted_until, counts }
    }
}

/// How many jobs ended so within one step of time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Count {
    /// When the step begins.
    pub at: Timestamp,
    /// Of which queue; `None`: not told apart, because that minute had more than [`HistoryRequest::MOST_IN_A_MINUTE`] counters.
    pub queue: Option<String>,
    /// Of which kind; `None`: not told apart, for the same reason, or because so much completed that the log was counted without looking at each job.
    pub kind: Option<String>,
    /// How they ended.
    #[serde(serialize_with = "name")]
    pub outcome: EventType,
    /// How many. Of [`EventType::Failed`] these are attempts: a job may be among them several times, and among the discarded as well.
    pub count: u64,
}

fn name<S: Serializer>(outcome: &EventType, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(outcome.as_str())
}

impl Count {
    /// What stands for queues and kinds that are not told apart, where a store keeps text.
    pub const ANY: &'static str = "*";

    /// A count, of queue and kind as a store keeps them.
    pub fn new(at: Timestamp, queue: String, kind: String, outcome: EventType, count: u64) -> Self {
        Self { at, queue: Self::named(queue), kind: Self::named(kind), outcome, count }
    }

    /// A queue or kind as a store keeps it; `None`: not told apart.
    pub(crate) fn named(name: String) -> Option<String> {
        (name != Self::ANY).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_refused_by_name() {
        let hour = || HistoryRequest::last(Duration::from_secs(3600));
        HistoryRequest { step: HistoryRequest::LONGEST, ..HistoryRequest::last(HistoryRequest::LONGEST) }
            .check()
            .unwrap();
        for (request, says) in [
            (HistoryRequest::last(Duration::ZERO), "up to 30 days, got 0 s"),
            (HistoryRequest::last(Duration::MAX), "30 days"),
            (HistoryRequest { step: Duration::ZERO, ..hour() }, "whole minutes"),
            (HistoryRequest { step: Duration::from_secs(61), ..hour() }, "61s"),
            (HistoryRequest { step: Duration::MAX, ..hour() }, "up to 30 days"),
            (HistoryRequest { outcome: Some(EventType::Started), ..hour() }, "started is not counted"),
        ] {
            let error = request.check().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidOption);
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
