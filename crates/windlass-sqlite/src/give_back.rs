//! Claims go back whose caller was gone before it could take them.

use crate::{
    claim_reply::UndeliveredClaims,
    command::Command,
    error::{Fault, Outcome},
    lease,
    room::Room,
    tx::Tx,
};
use std::{iter, sync::Arc};
use windlass_core::{ClaimRef, Error, WorkerId};

/// Some of a claim goes back. Nobody waits for that.
pub(crate) struct GiveBack {
    worker: WorkerId,
    claim: ClaimRef,
    undelivered: Arc<UndeliveredClaims>,
    /// Whether there is more of it.
    result: Option<Outcome<bool>>,
}

impl GiveBack {
    /// Of each of these that nobody took.
    pub(crate) fn of(undelivered: &Arc<UndeliveredClaims>) -> impl Iterator<Item = Box<dyn Command>> {
        undelivered.take().into_iter().map(|(worker, claim)| {
            let undelivered = Arc::clone(undelivered);
            Box::new(Self { worker, claim, undelivered, result: None }) as Box<dyn Command>
        })
    }
}

impl Command for GiveBack {
    fn durable(&self) -> bool {
        true
    }

    fn abandoned(&self) -> bool {
        false
    }

    fn unattended(&self) -> bool {
        true
    }

    fn run(&mut self, tx: &mut Tx<'_>) -> bool {
        self.result.insert(lease::give_back(tx, self.worker, self.claim, Room::WHOLE)).is_ok()
    }

    fn fault(&self) -> Option<&Fault> {
        self.result.as_ref()?.as_ref().err()
    }

    fn answer(self: Box<Self>, _: Option<&Error>) {
        // The rest is another command's, once this is committed: who failed comes again by itself.
        if let Some(Ok(true)) = self.result {
            self.undelivered.add(self.worker, iter::once(self.claim));
        }
    }
}
