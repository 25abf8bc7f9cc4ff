//! Reading how long jobs waited and ran.

use crate::{Count, Error, ErrorKind, Histogram, HistoryRequest, Result, Timing, millis};
use jiff::Timestamp;
use serde::Serialize;
use std::{collections::HashMap, time::Duration};

/// Which timings or failures to read: those of the time up to now, by the store's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimingRequest {
    /// How far back, up to [`HistoryRequest::LONGEST`].
    pub last: Duration,
    /// How much time one answer is of: whole minutes, as in [`HistoryRequest::step`]. What is older than [`Self::MINUTES_KEPT`] is kept by
    /// quarters of an hour.
    pub step: Duration,
    /// Only of this queue.
    pub queue: Option<String>,
    /// Only of this kind.
    pub kind: Option<String>,
}

impl TimingRequest {
    /// For how long timings are kept minute by minute: six hours.
    pub const MINUTES_KEPT: Duration = Duration::from_secs(6 * 3600);
    /// How long an answer of the time before that is of at least.
    pub const QUARTER: Duration = Duration::from_secs(900);
    /// The most rows that one answer is made from.
    pub const MOST: usize = 200_000;

    /// All of so much time, minute by minute.
    pub const fn last(last: Duration) -> Self {
        Self { last, step: HistoryRequest::MINUTE, queue: None, kind: None }
    }

    /// Checks the values; a store calls this first.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`], which names the value.
    pub fn check(&self) -> Result<()> {
        let (queue, kind) = (self.queue.clone(), self.kind.clone());
        HistoryRequest { step: self.step, queue, kind, ..HistoryRequest::last(self.last) }.check()
    }

    /// The error of a store that has more than [`Self::MOST`] rows to look at.
    pub fn too_much() -> Error {
        let message = format!("more than {} timings; ask for less time, or one queue or kind", Self::MOST);
        Error::new(ErrorKind::InvalidOption, message)
    }
}

/// How long the jobs of a queue and kind waited and ran within one step of time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Timed {
    /// When the step begins.
    pub at: Timestamp,
    /// Of which queue; `None`: not told apart, because a worker or a minute had too many.
    pub queue: Option<String>,
    /// Of which kind; `None`: not told apart.
    pub kind: Option<String>,
    /// As [`Timing::wait`]; in JSON its [summary](Histogram::summary).
    #[serde(serialize_with = "Histogram::as_summary")]
    pub wait: Histogram,
    /// As [`Timing::run`]; likewise.
    #[serde(serialize_with = "Histogram::as_summary")]
    pub run: Histogram,
}

/// What the workers measured, by time, queue and kind. Approximate: a worker that is killed takes up to ten seconds of it along, and of a claim of many jobs
/// some 32 to 63 are measured, and count for the others.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Timings {
    /// How much time each answer is of.
    #[serde(rename = "step_ms", with = "millis")]
    pub step: Duration,
    /// By time, queue and kind.
    pub timed: Vec<Timed>,
}

impl Timings {
    /// The same, with queues or kinds put together.
    #[must_use]
    pub fn told_apart(self, queues: bool, kinds: bool) -> Self {
        let mut timed: Vec<Timed> = Vec::new();
        for each in self.timed {
            let (queue, kind) = (each.queue.filter(|_| queues), each.kind.filter(|_| kinds));
            let known = timed.iter_mut().rev().take_while(|known| known.at == each.at);
            match known.into_iter().find(|known| (&known.queue, &known.kind) == (&queue, &kind)) {
                Some(known) => {
                    known.wait.merge(&each.wait);
                    known.run.merge(&each.run);
                }
                None => timed.push(Timed { queue, kind, ..each }),
            }
        }
        Self { step: self.step, timed }
    }

    /// For stores: from rows of when they begin and what was measured, by time.
    pub fn of(request: &TimingRequest, rows: impl IntoIterator<Item = (Timestamp, Timing)>) -> Self {
        let step = i64::try_from(request.step.as_secs()).unwrap_or(i64::MAX).max(1);
        let mut by_step: HashMap<(i64, String, String), Timing> = HashMap::new();
        let timed = |(_, timing): &(Timestamp, Timing)| !timing.wait.is_empty() || !timing.run.is_empty();
        for (at, timing) in rows.into_iter().filter(timed) {
            let key = (at.as_second().div_euclid(step) * step, timing.queue.clone(), timing.kind.clone());
            by_step.entry(key).or_default().merge(&timing);
        }
        let timed = |((at, queue, kind), timing): ((i64, String, String), Timing)| Timed {
            at: Timestamp::from_second(at).unwrap_or(Timestamp::MIN),
            queue: Count::named(queue),
            kind: Count::named(kind),
            wait: timing.wait,
            run: timing.run,
        };
        let mut timed: Vec<_> = by_step.into_iter().map(timed).collect();
        timed.sort_by(|a, b| (a.at, &a.queue, &a.kind).cmp(&(b.at, &b.queue, &b.kind)));
        Self { step: request.step, timed }
    }
}
