use super::{Bell, Exchanged, HandIn, Lender, LentJob, News, Room, StopReason, Ticket, calls::Calls};
use crate::Context;
use bytes::Bytes;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
    sync::Arc,
    task::Waker,
    time::Duration,
};
use windlass_core::Outcome;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BorrowerId(u64);

/// Who has which job. What is here is bounded by the concurrency of the worker's queues.
#[derive(Debug, Default)]
pub(super) struct Loans {
    jobs: BTreeMap<Ticket, Loan>,
    /// Those of them that nobody has, the oldest first.
    offered: BTreeSet<Ticket>,
    borrowers: BTreeMap<BorrowerId, Standing>,
    /// Borrowers that found nothing and have room, in the order in which they are rung.
    waiting: VecDeque<BorrowerId>,
    last_ticket: u64,
    last_borrower: u64,
    /// The worker stops: nothing more is lent.
    stops: bool,
    closed: bool,
}

#[derive(Debug)]
struct Loan {
    stage: Stage,
    /// Of the future that waits for the outcome.
    waker: Option<Waker>,
}

#[derive(Debug)]
enum Stage {
    Offered(Bytes, Box<Context>),
    Lent(BorrowerId),
    HandedIn(Outcome),
}

/// What is known of a borrower.
struct Standing {
    bell: Arc<dyn Bell>,
    rung: bool,
    waits: bool,
    news: Vec<News>,
    has: BTreeSet<Ticket>,
}

impl fmt::Debug for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Standing").field("has", &self.has).finish_non_exhaustive()
    }
}

impl Standing {
    fn ring(&mut self, calls: &mut Calls) {
        if !std::mem::replace(&mut self.rung, true) {
            calls.bells.push(Arc::clone(&self.bell));
        }
    }
}

/// A job that nobody took before it had to stop.
fn not_started() -> Outcome {
    Outcome::Retry { after: None, error: "nobody was there to run it".to_owned() }
}

/// A job that nobody took before its worker stopped: another worker's, now.
fn not_wanted() -> Outcome {
    Outcome::Snooze(Duration::ZERO)
}

impl Lender {
    /// The outcome of a job that was handed in, or else who waits for it.
    pub(super) fn outcome(&self, ticket: Ticket, waker: &Waker) -> Option<Outcome> {
        if cfg!(feature = "bug_lost_hand_in") {
            let known = self.lock().take_outcome(ticket);
            return known.or_else(|| {
                self.lock().park(ticket, waker);
                None
            });
        }
        let mut loans = self.lock();
        let known = loans.take_outcome(ticket);
        if known.is_none() {
            loans.park(ticket, waker);
        }
        known
    }
}

impl Loans {
    pub(super) fn offer(&mut self, args: Bytes, context: Context, calls: &mut Calls) -> Ticket {
        self.last_ticket += 1;
        let ticket = Ticket(self.last_ticket);
        if self.stops {
            self.jobs.insert(ticket, Loan { stage: Stage::HandedIn(not_wanted()), waker: None });
            return ticket;
        }
        self.jobs.insert(ticket, Loan { stage: Stage::Offered(args, Box::new(context)), waker: None });
        self.offered.insert(ticket);
        self.ring_next(calls);
        ticket
    }

    fn take_outcome(&mut self, ticket: Ticket) -> Option<Outcome> {
        self.jobs.get(&ticket).filter(|loan| matches!(loan.stage, Stage::HandedIn(_)))?;
        match self.jobs.remove(&ticket)?.stage {
            Stage::HandedIn(outcome) => Some(outcome),
            Stage::Offered(..) | Stage::Lent(_) => None,
        }
    }

    fn park(&mut self, ticket: Ticket, waker: &Waker) {
        if let Some(loan) = self.jobs.get_mut(&ticket) {
            match &mut loan.waker {
                Some(known) => known.clone_from(waker),
                none => *none = Some(waker.clone()),
            }
        }
    }

    /// Tells the borrower of a job to stop it. The outcome of a job that nobody has.
    pub(super) fn interrupt(
        &mut self,
        ticket: Ticket,
        reason: StopReason,
        calls: &mut Calls,
    ) -> Option<Outcome> {
        match self.jobs.get(&ticket)?.stage {
            Stage::Offered(..) => {
                self.withdraw(ticket, calls);
                Some(not_started())
            }
            Stage::Lent(borrower) => {
                self.tell(borrower, News::Interrupt(ticket, reason), calls);
                None
            }
            Stage::HandedIn(_) => self.take_outcome(ticket),
        }
    }

    /// The engine does not wait for this job any more.
    pub(super) fn withdraw(&mut self, ticket: Ticket, calls: &mut Calls) {
        match self.jobs.remove(&ticket).map(|loan| loan.stage) {
            Some(Stage::Offered(..)) => _ = self.offered.remove(&ticket),
            Some(Stage::Lent(borrower)) => {
                self.borrowers
                    .get_mut(&borrower)
                    .into_iter()
                    .for_each(|standing| _ = standing.has.remove(&ticket));
                if !cfg!(feature = "bug_lost_eviction") {
                    self.tell(borrower, News::Evicted(ticket), calls);
                }
            }
            Some(Stage::HandedIn(_)) | None => {}
        }
    }

    /// Enters outcomes; how many of them were refused.
    pub(super) fn hand_in(&mut self, by: BorrowerId, done: &mut Vec<HandIn>, calls: &mut Calls) -> u32 {
        let mut refused = 0;
        for HandIn { ticket, outcome } in done.drain(..) {
            let has = self.borrowers.get_mut(&by).is_some_and(|standing| standing.has.remove(&ticket));
            match has {
                true => self.settle(ticket, outcome, calls),
                false => refused += 1,
            }
        }
        refused
    }

    fn settle(&mut self, ticket: Ticket, outcome: Outcome, calls: &mut Calls) {
        if let Some(loan) = self.jobs.get_mut(&ticket) {
            loan.stage = Stage::HandedIn(outcome);
            calls.wakers.extend(loan.waker.take());
        }
    }

    /// Lends the oldest jobs. What has to stop by now, or is too late, is not lent.
    pub(super) fn lend(&mut self, to: BorrowerId, room: Room, lent: &mut Vec<LentJob>, calls: &mut Calls) {
        let Some(standing) = self.borrowers.get_mut(&to) else { return };
        let (mut jobs, mut bytes) = (0, 0);
        while jobs < room.jobs && (jobs == 0 || bytes < room.bytes) {
            let Some(ticket) = self.offered.pop_first() else { break };
            let Some(loan) = self.jobs.get_mut(&ticket) else { continue };
            let Stage::Offered(args, context) = std::mem::replace(&mut loan.stage, Stage::Lent(to)) else {
                continue;
            };
            let instead = context.is_cancelled().then(not_started);
            if let Some(outcome) = instead.or_else(|| context.expired_outcome()) {
                loan.stage = Stage::HandedIn(outcome);
                calls.wakers.extend(loan.waker.take());
                continue;
            }
            if context.switch().take_off_offer() {
                calls.wakers.extend(loan.waker.clone());
            }
            (jobs, bytes) = (jobs + 1, bytes + args.len());
            standing.has.insert(ticket);
            lent.push(LentJob { ticket, args, context: *context });
        }
    }

    /// The borrower has room left: it is rung when there is a job.
    pub(super) fn wait(&mut self, borrower: BorrowerId) {
        if let Some(standing) = self.borrowers.get_mut(&borrower)
            && !std::mem::replace(&mut standing.waits, true)
        {
            self.waiting.push_back(borrower);
        }
    }

    /// Ends an exchange: from here on the borrower may be rung again.
    pub(super) fn exchanged(&mut self, borrower: BorrowerId, refused: u32, calls: &mut Calls) -> Exchanged {
        let standing = self.borrowers.get_mut(&borrower);
        let news = standing.map_or_else(Vec::new, |standing| {
            standing.rung = false;
            std::mem::take(&mut standing.news)
        });
        // It may have been rung for a job that it has no room for.
        self.ring_next(calls);
        Exchanged { news, more: !self.offered.is_empty(), closed: self.closed, refused }
    }

    /// Rings the borrower that waits longest, if there is a job for it.
    fn ring_next(&mut self, calls: &mut Calls) {
        if self.offered.is_empty() {
            return;
        }
        while let Some(next) = self.waiting.pop_front() {
            if let Some(standing) = self.borrowers.get_mut(&next) {
                standing.waits = false;
                standing.ring(calls);
                return;
            }
        }
    }

    fn tell(&mut self, borrower: BorrowerId, news: News, calls: &mut Calls) {
        if let Some(standing) = self.borrowers.get_mut(&borrower) {
            standing.news.push(news);
            standing.ring(calls);
        }
    }

    pub(super) fn add_borrower(&mut self, bell: Arc<dyn Bell>) -> BorrowerId {
        self.last_borrower += 1;
        let id = BorrowerId(self.last_borrower);
        let standing = Standing { bell, rung: false, waits: false, news: Vec::new(), has: BTreeSet::new() };
        self.borrowers.insert(id, standing);
        id
    }

    pub(super) fn remove_borrower(&mut self, id: BorrowerId, error: &str, calls: &mut Calls) {
        let Some(standing) = self.borrowers.remove(&id) else { return };
        self.waiting.retain(|waiting| *waiting != id);
        for ticket in standing.has {
            self.settle(ticket, Outcome::Retry { after: None, error: error.to_owned() }, calls);
        }
        // It may have been rung for a job that is still there.
        self.ring_next(calls);
    }

    pub(super) fn has(&self, borrower: BorrowerId) -> usize {
        self.borrowers.get(&borrower).map_or(0, |standing| standing.has.len())
    }

    pub(super) fn offered(&self) -> usize {
        self.offered.len()
    }

    pub(super) fn hand_back(&mut self, calls: &mut Calls) {
        self.stops = true;
        for ticket in std::mem::take(&mut self.offered) {
            self.settle(ticket, not_wanted(), calls);
        }
    }

    pub(super) fn close(&mut self, calls: &mut Calls) {
        self.closed = true;
        self.borrowers.values_mut().for_each(|standing| standing.ring(calls));
    }
}
