//! Counters per minute: each event counts when it happens.

use crate::clock::earlier;
use jiff::Timestamp;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use windlass_core::{Count, EventType, History, HistoryRequest, Result};

/// What one count is of, within its minute.
type Of = (Arc<str>, Arc<str>, EventType);

/// Counters by their minute since 1970.
#[derive(Debug, Default)]
pub(crate) struct Counters(BTreeMap<i64, BTreeMap<Of, u64>>);

impl Counters {
    pub(crate) fn add(&mut self, at: Timestamp, queue: &Arc<str>, kind: &Arc<str>, outcome: EventType) {
        if !HistoryRequest::OUTCOMES.contains(&outcome) {
            return;
        }
        let minute = self.0.entry(at.as_second().div_euclid(60)).or_default();
        let mut of = (Arc::clone(queue), Arc::clone(kind), outcome);
        if minute.len() >= HistoryRequest::MOST_IN_A_MINUTE && !minute.contains_key(&of) {
            of = (Count::ANY.into(), Count::ANY.into(), outcome);
        }
        *minute.entry(of).or_default() += 1;
    }

    /// Removes what is past its time.
    pub(crate) fn forget(&mut self, now: Timestamp) {
        self.0 = self.0.split_off(&earlier(now, HistoryRequest::LONGEST).as_second().div_euclid(60));
    }

    /// What the checked request asks for.
    pub(crate) fn history(&self, now: Timestamp, request: &HistoryRequest) -> Result<History> {
        let from = earlier(now, request.last + Duration::from_secs(60)).as_second().div_euclid(60) + 1;
        let step = i64::try_from(request.step.as_secs()).unwrap_or(i64::MAX);
        let mut sums: BTreeMap<(i64, &Of), u64> = BTreeMap::new();
        for (minute, counters) in self.0.range(from..) {
            for (of, count) in counters {
                let (queue, kind, outcome) = of;
                let fits = request.queue.as_deref().is_none_or(|only| only == &**queue)
                    && request.kind.as_deref().is_none_or(|only| only == &**kind)
                    && request.outcome.is_none_or(|only| only == *outcome);
                if fits {
                    *sums.entry(((minute * 60).div_euclid(step) * step, of)).or_default() += count;
                }
            }
        }
        if sums.len() > HistoryRequest::MOST {
            return Err(HistoryRequest::too_much());
        }
        let counts = sums.into_iter().map(|((at, (queue, kind, outcome)), count)| {
            let at = Timestamp::from_second(at).unwrap_or(Timestamp::UNIX_EPOCH);
            Count::new(at, queue.to_string(), kind.to_string(), *outcome, count)
        });
        Ok(History::new(request.step, now, counts.collect()))
    }
}
