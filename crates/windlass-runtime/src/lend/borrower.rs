use super::{Exchanged, HandIn, Lender, LentJob, Room, loan::not_wanted, standing::BorrowerId};
use windlass_core::Outcome;

/// Takes jobs from a [`Lender`] and hands their outcomes in. Nothing here waits. Dropping it fails the jobs that it still has.
#[derive(Debug)]
pub struct Borrower {
    lender: Lender,
    id: BorrowerId,
}

impl Borrower {
    pub(super) fn new(lender: Lender, id: BorrowerId) -> Self {
        Self { lender, id }
    }

    /// Hands in what is done, and takes jobs for which there is room. A borrower with room left is rung when there is a
    /// job for it; one that has none asks again when it has some.
    pub fn exchange(&self, done: &mut Vec<HandIn>, room: Room, lent: &mut Vec<LentJob>) -> Exchanged {
        let before = lent.len();
        let exchanged = self.lender.change(|loans, calls| {
            let refused = loans.hand_in(self.id, done, calls);
            loans.lend(self.id, room, lent, calls);
            if !cfg!(feature = "bug_lost_bell") && lent.len() - before < room.jobs {
                loans.wait(self.id);
            }
            loans.exchanged(self.id, refused, calls)
        });
        if cfg!(feature = "bug_lost_bell") && lent.len() - before < room.jobs {
            self.lender.lock().wait(self.id);
        }
        exchanged
    }

    /// Takes jobs that are there. Who finds none is not rung for one: it has something to hand in, and then asks by [`Self::exchange`].
    pub fn take(&self, room: Room, lent: &mut Vec<LentJob>) -> Exchanged {
        self.lender.change(|loans, calls| {
            loans.lend(self.id, room, lent, calls);
            loans.exchanged(self.id, 0, calls)
        })
    }

    /// Ends it, and fails the jobs that it has with this error.
    pub fn end(self, error: &str) {
        self.remove(&failed(error));
    }

    /// Ends it together with its worker: the jobs that it has go back, and their attempts do not count, as in a shutdown.
    pub fn give_back(self) {
        self.remove(&not_wanted());
    }

    /// How many jobs it has.
    pub fn has(&self) -> usize {
        self.lender.lock().has(self.id)
    }

    fn remove(&self, outcome: &Outcome) {
        self.lender.change(|loans, calls| loans.remove_borrower(self.id, outcome, calls));
    }
}

fn failed(error: &str) -> Outcome {
    Outcome::Retry { after: None, error: error.to_owned() }
}

impl Drop for Borrower {
    fn drop(&mut self) {
        self.remove(&failed("what ran the job is gone"));
    }
}
