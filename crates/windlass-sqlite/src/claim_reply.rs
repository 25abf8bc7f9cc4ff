//! The reply to a claim call, on its way to a caller that may be gone: claims that the caller does not take go back.

use crate::{
    command::{BoxCommand, Task},
    tx::Tx,
};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;
use windlass_core::{ClaimRef, Claimed, WorkerId};

/// Claims whose caller was gone before it could take them. The writer gives them back with its next group.
#[derive(Default)]
pub(crate) struct UndeliveredClaims(Mutex<Vec<(WorkerId, ClaimRef)>>);

impl UndeliveredClaims {
    pub(crate) fn take(&self) -> Vec<(WorkerId, ClaimRef)> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn add(&self, worker: WorkerId, claims: impl Iterator<Item = ClaimRef>) {
        let claims = claims.map(|claim| (worker, claim));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(claims);
    }
}

/// Where the claims of one call go if the caller does not take them.
#[derive(Clone)]
pub(crate) struct ReturnPath {
    pub(crate) worker: WorkerId,
    pub(crate) undelivered: Arc<UndeliveredClaims>,
    pub(crate) writer: mpsc::WeakSender<BoxCommand>,
}

/// The reply to one claim call. When it is dropped without [`Self::take`], its claims go back to the log.
pub(crate) struct ClaimReply {
    pub(crate) claimed: Claimed,
    pub(crate) return_path: ReturnPath,
}

impl ClaimReply {
    /// The caller has them now.
    pub(crate) fn take(mut self) -> Claimed {
        std::mem::take(&mut self.claimed)
    }
}

impl Drop for ClaimReply {
    fn drop(&mut self) {
        if self.claimed.claims.is_empty() {
            return;
        }
        let claims = self.claimed.claims.iter().map(|claim| claim.reference);
        self.return_path.undelivered.add(self.return_path.worker, claims);
        if let Some(writer) = self.return_path.writer.upgrade() {
            // This only wakes an idle writer. When the inbox is full the writer is busy and looks anyway.
            let _ = writer.try_send(Task::<(), _>::unattended(|_: &mut Tx<'_>| Ok(())));
        }
    }
}
