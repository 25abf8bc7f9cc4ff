use super::{Bell, News, calls::Calls};
use std::{fmt, sync::Arc};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BorrowerId(pub(super) u64);

/// What is known of a borrower.
pub(super) struct Standing {
    pub(super) bell: Arc<dyn Bell>,
    pub(super) rung: bool,
    pub(super) waits: bool,
    pub(super) news: Vec<News>,
    /// How many jobs it has.
    pub(super) has: usize,
}

impl fmt::Debug for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Standing").field("has", &self.has).finish_non_exhaustive()
    }
}

impl Standing {
    pub(super) fn ring(&mut self, calls: &mut Calls) {
        if !std::mem::replace(&mut self.rung, true) {
            calls.bells.push(Arc::clone(&self.bell));
        }
    }
}
