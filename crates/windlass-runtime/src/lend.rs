//! Jobs that foreign code runs: an event loop of another language, a thread of it, a child process.
//!
//! The engine hands a job to a [`Lender`] as it hands it to any handler; whoever runs it takes it from there through a
//! [`Borrower`] and gives its outcome back by a ticket. So attempts, time limits, cancelling, limits, suspects and layers are the
//! engine's own, and no thread of the engine ever enters foreign code. Why it is so: docs/design/lending.md.

mod attendance;
mod borrower;
mod calls;
mod loan;
mod loans;
mod lot;
mod offer;
mod outcomes;
mod serving;
mod spread;
mod standing;
mod terms;
mod together;
mod untaken;

pub use attendance::rest_without_borrowers;
pub use borrower::Borrower;
pub(crate) use lot::ToLend;
pub use terms::{Exchanged, HandIn, LentJob, News, Room, StopReason};

use crate::sync::{Mutex, MutexGuard};
use calls::Calls;
use loans::Loans;
use std::sync::{Arc, PoisonError};

/// Tells a borrower that there is something for it.
pub trait Bell: Send + Sync + 'static {
    /// Must not block. Called outside every lock, and at most once until the borrower's next [`Borrower::exchange`].
    fn ring(&self);
}

impl<F: Fn() + Send + Sync + 'static> Bell for F {
    fn ring(&self) {
        self();
    }
}

/// Says which loan is meant. A number is never used again, so a ticket is good for one hand-in: one that is late, doubled or
/// somebody else's is refused and has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Lends jobs to whoever runs them. Clones are the same lender.
///
/// ```
/// use std::sync::{Arc, atomic::{AtomicBool, Ordering}};
/// use windlass_runtime::lend::{Lender, Room};
///
/// let lender = Lender::new(); // the handler of the kinds that foreign code runs
/// let rung = Arc::new(AtomicBool::new(false));
/// let bell = Arc::clone(&rung);
/// let borrower = lender.borrower(move || bell.store(true, Ordering::Relaxed));
/// let (mut done, mut lent) = (Vec::new(), Vec::new());
/// let exchanged = borrower.exchange(&mut done, Room::jobs(10), &mut lent);
/// assert!(lent.is_empty() && !exchanged.more); // nothing yet: the bell will ring
/// ```
#[derive(Clone, Debug, Default)]
pub struct Lender {
    loans: Arc<Mutex<Loans>>,
}

impl Lender {
    /// Makes one. Give it to a worker as the handler of the kinds that foreign code runs.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes somebody who takes jobs. When it is dropped, the jobs that it has fail.
    pub fn borrower(&self, bell: impl Bell) -> Borrower {
        let id = self.change(|loans, calls| loans.add_borrower(Arc::new(bell), calls));
        Borrower::new(self.clone(), id)
    }

    /// Says that no job will come any more: the worker ended. Every borrower is told by its bell and
    /// [`Exchanged::closed`].
    pub fn close(&self) {
        self.change(Loans::close);
    }

    /// How many jobs wait for a borrower.
    pub fn offered(&self) -> usize {
        self.lock().offered()
    }

    fn lock(&self) -> MutexGuard<'_, Loans> {
        // A panic under the lock would be a defect; what was lent can still be handed in.
        self.loans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is lent, and then, outside the lock, calls whom it concerns.
    fn change<T>(&self, change: impl FnOnce(&mut Loans, &mut Calls) -> T) -> T {
        let mut calls = Calls::default();
        let changed = change(&mut self.lock(), &mut calls);
        calls.make();
        changed
    }
}
