//! A worker whose jobs foreign code runs, while none of that is there: its program cannot start any more, say.
//!
//! What such a worker has claimed goes back, since other workers may have places for it, and it claims nothing until somebody is there.

use super::{Lender, loans::Loans};
use crate::{EngineHandle, ahead::PATIENCE, core::Core, sync::atomic::Ordering};
use std::sync::Arc;
use tokio::{sync::Notify, time::sleep};
use tracing::{info, warn};

/// Says that the borrowers of these lenders run all jobs of this worker, which claims none while there has been no borrower for half a second. What was on offer by then
/// goes back, and uses no attempt. Of a worker that has handlers beside that, some jobs would go round, claimed and handed back: it goes on to claim, and what nobody takes goes back less and less often (`untaken.rs`).
pub fn rest_without_borrowers(lenders: Vec<Lender>, engine: &EngineHandle) {
    let (stopping, core, changed) = (engine.stopping(), Arc::clone(engine.core()), Arc::new(Notify::new()));
    for lender in &lenders {
        lender.change(|loans, _| loans.attendance = Some(Arc::clone(&changed)));
    }
    tokio::spawn(async move {
        tokio::select! {
            biased;
            () = stopping => {}
            () = watch(&lenders, &core, &changed) => {}
        }
    });
}

async fn watch(lenders: &[Lender], core: &Core, changed: &Notify) {
    let is_anybody = || lenders.iter().any(|lender| lender.lock().has_borrowers());
    loop {
        while is_anybody() {
            changed.notified().await;
        }
        tokio::select! {
            biased;
            () = changed.notified() => continue,
            () = sleep(PATIENCE) => {}
        }
        warn!(
            "nobody is there to run jobs; those that nobody has begun go back, and none are claimed until somebody is"
        );
        tell(core, true);
        lenders.iter().for_each(|lender| lender.change(Loans::rest));
        while !is_anybody() {
            changed.notified().await;
        }
        info!("somebody is there to run jobs again");
        lenders.iter().for_each(|lender| lender.change(|loans, _| loans.rests = false));
        tell(core, false);
    }
}

fn tell(core: &Core, rests: bool) {
    core.rests.store(rests, Ordering::SeqCst);
    core.signals.wake_claimer();
}
