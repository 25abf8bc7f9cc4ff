//! What a queue runner does where its queue has limits.

use crate::{
    allowance::{Allowance, Held},
    epoch::Epoch,
    gathering::Most,
    queue_runner::QueueRunner,
    queue_state::{HandBack, State},
    turn::Activation,
};
use std::sync::Arc;
use tokio::time::Instant;
use windlass_core::{QueueNeed, Share, WorkerId};

impl QueueRunner {
    /// The queue has limits, as the store says. `now`: what they are, or who else wants slots, may have changed.
    pub(crate) fn ask_for_share(&self, now: bool, random: fn() -> f64) {
        let mut state = self.lock();
        let allowance = state.allowance.get_or_insert_with(|| Box::new(Allowance::new(random)));
        if now { allowance.ask_now() } else { allowance.ask() }
    }

    /// When to ask the store for a share; `None` while there is no reason to.
    pub(crate) fn share_due(&self) -> Option<Instant> {
        let state = self.lock();
        let allowance = state.allowance.as_ref().filter(|_| !state.closed)?;
        allowance.due(state.ready.len(), state.next_limited(), state.capacity())
    }

    /// Whether it depends on what the store has what to ask for.
    pub(crate) fn share_needs_look(&self) -> bool {
        let state = self.lock();
        let (ready, capacity) = (state.ready.len(), state.capacity());
        state.allowance.as_ref().is_some_and(|allowance| allowance.needs_look(ready, capacity))
    }

    /// What to ask for. `more`: the store has jobs that this worker does not hold.
    pub(crate) fn share_need(&self, worker: WorkerId, more: bool) -> Option<QueueNeed> {
        let mut state = self.lock();
        let running = state.open_claims.running_of(worker);
        let (next, capacity) = (state.next_limited(), state.capacity());
        let held = Held { running, ready: state.ready.len(), together: next.map_or(1, |next| next.jobs) };
        let State { allowance, ready, .. } = &mut *state;
        let costs = ready.costs().filter(|_| next.is_some());
        let need = allowance.as_mut()?.need(worker, held, costs, capacity, more);
        if !need.starts.is_empty() {
            ready.gatherings.iter_mut().for_each(|gatherings| gatherings.note_asked(Instant::now()));
        }
        Some(need.of_queue(self.queue()))
    }

    /// The store's answer to what this registration asked then; `None`: somebody is changing its limits.
    pub(crate) fn set_share(
        &self,
        epoch: &Arc<Epoch>,
        share: Option<&Share>,
        asked_at: Instant,
    ) -> Option<Activation> {
        let Some(share) = share else {
            self.share_failed();
            return None;
        };
        let mut state = self.lock();
        if share.limits.is_none() {
            state.allowance = None;
            state.ready.set_most(Most::ANY);
        } else if let State { allowance: Some(allowance), ready, .. } = &mut *state {
            allowance.set(share, asked_at);
            let none = allowance.should_hold_none(ready.costs().next());
            let most = allowance.most();
            // What an earlier registration claimed has no share.
            let gone = state.ready.remove(|scope| none || !Arc::ptr_eq(&scope.epoch, epoch));
            state.hand_back(gone, HandBack::Return);
            state.ready.set_most(most);
        }
        state.activate_if_needed()
    }

    /// A call that asked for a share failed.
    pub(crate) fn share_failed(&self) {
        if let Some(allowance) = &mut self.lock().allowance {
            allowance.failed();
        }
    }

    /// Whether the limits are known here.
    pub(crate) fn is_limited(&self) -> bool {
        self.lock().allowance.is_some()
    }
}
