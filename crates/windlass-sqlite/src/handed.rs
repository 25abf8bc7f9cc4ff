//! Claims on their way to a caller that may have gone away: whatever is not taken goes back.

use crate::{
    command::{BoxCommand, Task},
    tx::Tx,
};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;
use windlass_core::{Claim, ClaimRef, Claimed, WorkerId};

/// Claims that nobody took, for the writer to give back with its next group.
#[derive(Default)]
pub(crate) struct Orphans(Mutex<Vec<(WorkerId, ClaimRef)>>);

impl Orphans {
    pub(crate) fn take(&self) -> Vec<(WorkerId, ClaimRef)> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn add(&self, worker: WorkerId, claims: &[Claim]) {
        let claims = claims.iter().map(|claim| (worker, claim.reference));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(claims);
    }
}

/// Where untaken claims of one call go.
#[derive(Clone)]
pub(crate) struct Return {
    pub(crate) worker: WorkerId,
    pub(crate) orphans: Arc<Orphans>,
    pub(crate) writer: mpsc::WeakSender<BoxCommand>,
}

/// Claims in transit. Dropped without [`Self::take`], they go back to the log.
pub(crate) struct Handed {
    pub(crate) claimed: Claimed,
    pub(crate) back: Return,
}

impl Handed {
    /// The caller has them now.
    pub(crate) fn take(mut self) -> Claimed {
        std::mem::take(&mut self.claimed)
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        if self.claimed.claims.is_empty() {
            return;
        }
        self.back.orphans.add(self.back.worker, &self.claimed.claims);
        if let Some(writer) = self.back.writer.upgrade() {
            // Only to make an idle writer look. A full inbox means that it will look anyway.
            let _ = writer.try_send(Task::<(), _>::unattended(|_: &mut Tx<'_>| Ok(())));
        }
    }
}
