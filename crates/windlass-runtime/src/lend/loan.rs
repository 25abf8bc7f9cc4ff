use super::{Ticket, standing::BorrowerId};
use crate::{Context, unattended::Unattended};
use bytes::Bytes;
use std::{task::Waker, time::Duration};
use windlass_core::Outcome;

/// A job that somebody is to run.
#[derive(Debug)]
pub(super) struct Loan {
    /// The ticket of the first job of its batch: its own where it is run by itself.
    pub(super) batch: Ticket,
    pub(super) stage: Stage,
    pub(super) waits: Waits,
}

/// Who waits for the outcome of a job.
#[derive(Debug)]
pub(super) enum Waits {
    /// A future that has not looked yet, or is being made.
    Nobody,
    /// A future.
    Task(Waker),
    /// That of its batch.
    Batch,
    /// None: it is entered by whoever hands it in.
    Queue(Box<Unattended>),
}

impl Waits {
    pub(super) fn take_waker(&mut self) -> Option<Waker> {
        match std::mem::replace(self, Self::Nobody) {
            Self::Task(waker) => Some(waker),
            other => {
                *self = other;
                None
            }
        }
    }
}

impl Loan {
    pub(super) fn is_lent_to(&self, borrower: BorrowerId) -> bool {
        matches!(self.stage, Stage::Lent(to) if to == borrower)
    }
}

/// How far it is.
#[derive(Debug)]
pub(super) enum Stage {
    Offered(Bytes, Box<Context>),
    Lent(BorrowerId),
    HandedIn(Outcome),
}

/// A job that nobody took before it had to stop.
pub(super) fn not_started() -> Outcome {
    Outcome::Retry { after: None, error: "nobody was there to run it".to_owned() }
}

/// A job that nobody took before its worker stopped or rested, which goes back whatever is said of it; or one that went with its worker: another worker's, now.
pub(super) fn not_wanted() -> Outcome {
    Outcome::Snooze(Duration::ZERO)
}
