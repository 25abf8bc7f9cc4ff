//! What workers measured, by the minute, queue and kind.

use crate::{MemoryStore, clock::earlier, state::State};
use async_trait::async_trait;
use jiff::Timestamp;
use windlass_core::{
    Failure, FailureGroup, HistoryRequest, Result, Timing, TimingRequest, TimingStore, Timings,
};

#[async_trait]
impl TimingStore for MemoryStore {
    async fn measure(&self, timings: &[Timing]) -> Result<()> {
        Timing::check(timings)?;
        let mut state = self.state().await;
        let at = minute_of(state.now());
        for timing in timings {
            let key = (at, timing.queue.clone(), timing.kind.clone());
            state.timings.entry(key).or_default().merge(timing);
        }
        Ok(())
    }

    async fn timings(&self, request: &TimingRequest) -> Result<Timings> {
        request.check()?;
        let state = self.state().await;
        Ok(Timings::of(request, asked(&state, request)))
    }

    async fn failures(&self, request: &TimingRequest) -> Result<Vec<FailureGroup>> {
        request.check()?;
        let state = self.state().await;
        let rows = asked(&state, request).flat_map(|(at, Timing { queue, kind, failures, .. })| {
            let row = move |failure: Failure| (at, queue.clone(), kind.clone(), failure);
            failures.into_iter().map(row)
        });
        Ok(FailureGroup::of(rows))
    }
}

fn minute_of(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second().div_euclid(60) * 60).unwrap_or(at)
}

fn asked<'s>(
    state: &'s State,
    request: &'s TimingRequest,
) -> impl Iterator<Item = (Timestamp, Timing)> + use<'s> {
    let since = minute_of(earlier(state.now(), request.last));
    let fits = |asked: &Option<String>, is: &String| asked.as_ref().is_none_or(|asked| asked == is);
    let rows = state.timings.iter().filter(move |((at, queue, kind), _)| {
        *at >= since && fits(&request.queue, queue) && fits(&request.kind, kind)
    });
    rows.map(|((at, queue, kind), timing)| {
        let mut timing = timing.clone();
        (timing.queue, timing.kind) = (queue.clone(), kind.clone());
        (*at, timing)
    })
}

/// Removes what is too old.
pub(crate) fn forget(state: &mut State) {
    let since = earlier(state.now(), HistoryRequest::LONGEST);
    state.timings.retain(|(at, ..), _| *at >= since);
}
