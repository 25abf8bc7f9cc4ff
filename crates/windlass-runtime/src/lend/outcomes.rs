use std::task::Waker;
use windlass_core::Outcome;

/// The outcomes of the jobs of a batch, as they come: one future waits for all of them, and is woken once.
#[derive(Debug)]
pub(super) struct Outcomes {
    each: Vec<Option<Outcome>>,
    missing: usize,
    waker: Option<Waker>,
}

impl Outcomes {
    /// Of so many jobs.
    pub(super) fn of(jobs: usize) -> Self {
        Self { each: (0..jobs).map(|_| None).collect(), missing: jobs, waker: None }
    }

    pub(super) fn jobs(&self) -> usize {
        self.each.len()
    }

    /// Enters that of the job at this place. Who is to be woken, where it was the last that was missing.
    pub(super) fn enter(&mut self, place: usize, outcome: Outcome) -> Option<Waker> {
        if self.each[place].replace(outcome).is_none() {
            self.missing -= 1;
        }
        if self.missing == 0 { self.waker.take() } else { None }
    }

    /// All of them, where none is missing, in the order of the jobs.
    pub(super) fn take(&mut self) -> Option<Vec<Outcome>> {
        (self.missing == 0).then(|| std::mem::take(&mut self.each).into_iter().flatten().collect())
    }

    pub(super) fn set_waker(&mut self, waker: &Waker) {
        match &mut self.waker {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }

    /// Who is to look at it once more.
    pub(super) fn take_waker(&mut self) -> Option<Waker> {
        self.waker.take()
    }
}
