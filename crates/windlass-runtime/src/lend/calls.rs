use super::Bell;
use crate::unattended::Unattended;
use std::{sync::Arc, task::Waker};
use tokio::sync::Notify;
use windlass_core::Outcome;

/// Whom a change concerns: they are called when the lock is free.
#[derive(Default)]
pub(super) struct Calls {
    pub(super) wakers: Vec<Waker>,
    pub(super) bells: Vec<Arc<dyn Bell>>,
    /// Jobs for which no future waits, with their outcomes.
    pub(super) ended: Vec<(Box<Unattended>, Outcome)>,
    /// Who watches whether anybody is there.
    pub(super) attendance: Option<Arc<Notify>>,
    /// Who looks after what is on offer.
    pub(super) watcher: Option<Arc<Notify>>,
}

impl Calls {
    pub(super) fn make(self) {
        self.wakers.into_iter().for_each(Waker::wake);
        self.bells.iter().for_each(|bell| bell.ring());
        self.attendance.iter().chain(&self.watcher).for_each(|watcher| watcher.notify_one());
        enter(self.ended);
    }
}

/// Enters what became of jobs: at once for all that follow one another and are of one executor.
fn enter(mut ended: Vec<(Box<Unattended>, Outcome)>) {
    while let Some((first, _)) = ended.first() {
        let home = Arc::clone(&first.home);
        let others = ended.iter().position(|(job, _)| !Arc::ptr_eq(&job.home, &home));
        let rest = others.map_or_else(Vec::new, |at| ended.split_off(at));
        home.ended(std::mem::replace(&mut ended, rest));
    }
}
