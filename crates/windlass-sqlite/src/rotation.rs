//! Claims of more queues than one transaction asks: the next claim of the worker goes on with the queue at which that one ended, so that none starves.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use windlass_core::{ClaimRequest, Claimed, WorkerId};

/// Where the next claim of a worker begins, of those whose last one did not ask all of its queues.
#[derive(Default)]
pub(crate) struct Rotation(Mutex<HashMap<WorkerId, Arc<str>>>);

impl Rotation {
    fn lock(&self) -> MutexGuard<'_, HashMap<WorkerId, Arc<str>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same request, in the order in which its queues are asked.
    pub(crate) fn in_turn(&self, request: &ClaimRequest) -> ClaimRequest {
        let mut request = request.clone();
        if let Some(next) = self.lock().get(&request.worker) {
            let known = request.queues.iter().position(|demand| demand.queue == *next);
            // It asks for nothing of that one now.
            let first = known.unwrap_or_else(|| fastrand::usize(..request.queues.len().max(1)));
            request.queues.rotate_left(first);
        }
        request
    }

    /// What a claim found, which asked the queues before this one, or all.
    pub(crate) fn end(&self, request: &ClaimRequest, next: Option<usize>, mut found: Claimed) -> Claimed {
        match next {
            Some(next) => {
                found.contended = true;
                self.lock().insert(request.worker, Arc::clone(&request.queues[next].queue));
            }
            None => self.forget(request.worker),
        }
        found
    }

    pub(crate) fn forget(&self, worker: WorkerId) {
        self.lock().remove(&worker);
    }
}

/// Adds what one part of a claim found. Whether it brought jobs.
pub(crate) fn add(total: &mut Claimed, part: Claimed) -> bool {
    let Claimed { claims, contended, blocked, limited, next_due } = part;
    total.claims.extend(claims);
    total.contended |= contended;
    total.blocked |= blocked;
    total.limited.extend(limited);
    total.next_due = total.next_due.into_iter().chain(next_due).min();
    !total.claims.is_empty()
}
