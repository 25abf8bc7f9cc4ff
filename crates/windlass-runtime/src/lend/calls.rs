use super::Bell;
use std::{sync::Arc, task::Waker};

/// Whom a change concerns: they are called when the lock is free.
#[derive(Default)]
pub(super) struct Calls {
    pub(super) wakers: Vec<Waker>,
    pub(super) bells: Vec<Arc<dyn Bell>>,
}

impl Calls {
    pub(super) fn make(self) {
        self.wakers.into_iter().for_each(Waker::wake);
        self.bells.iter().for_each(|bell| bell.ring());
    }
}
