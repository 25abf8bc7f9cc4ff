//! A store that times what the worker of the busy queue asks of it.

use super::timings::Timings;
use std::sync::Arc;
use windlass::{Result, Store};
use windlass_core::{ClaimRequest, Claimed, Promoted, SettleReply, SettleRequest, wrap_store};

/// Passes every call on, and notes how long some take.
pub(super) struct TimedStore {
    pub(super) store: Arc<dyn Store>,
    pub(super) timings: Arc<Timings>,
}

wrap_store! {
    impl JobStore for TimedStore, through store:
    [capabilities migrate enqueue enqueue_once enqueue_unique register heartbeat deregister report checkpoints suspect rescue maintain
     settings configure retention set_retention cancel retry edit delete pause drain_worker limit limit_keys key_limits share job jobs any_available coming queues_by history status events wakeup close]

    async fn claim(&self, request: &ClaimRequest) -> Result<Claimed> {
        let claim = self.store.claim(request);
        self.timings
            .time(claim, |times, began, took, claimed| {
                times.claims.record(took);
                times.slowest = times.slowest.max(took);
                if claimed.as_ref().is_ok_and(|claimed| !claimed.claims.is_empty()) {
                    times.first_jobs.get_or_insert(began);
                }
            })
            .await
    }

    async fn settle(&self, request: &SettleRequest) -> Result<SettleReply> {
        let settle = self.store.settle(request);
        self.timings
            .time(settle, |times, _, took, _| {
                times.settles.record(took);
                times.slowest = times.slowest.max(took);
            })
            .await
    }

    async fn promote(&self, limit: u32) -> Result<Promoted> {
        self.timings.time(self.store.promote(limit), |times, _, took, _| times.promotes.record(took)).await
    }
}
