use super::{
    Bell, Exchanged, HandIn, Lender, LentJob, News, Room, StopReason, Ticket,
    calls::Calls,
    loan::{Loan, Stage, Waits, not_started, not_wanted},
    outcomes::Outcomes,
    spread::ByTicket,
    standing::{BorrowerId, Standing},
};
use crate::{Context, unattended::Unattended};
use bytes::Bytes;
use std::{
    collections::{BTreeMap, VecDeque, hash_map::Entry},
    sync::Arc,
    task::Waker,
};
use tokio::sync::Notify;
use windlass_core::{JobId, Outcome};

/// Who has which job. What is here is bounded by the concurrency of the worker's queues.
#[derive(Debug, Default)]
pub(super) struct Loans {
    jobs: ByTicket<Loan>,
    /// Those of them that nobody has, in the order of their tickets: the oldest first.
    offered: VecDeque<Ticket>,
    /// What became of the jobs of batches, by the tickets of their first ones.
    pub(super) batches: ByTicket<Outcomes>,
    borrowers: BTreeMap<BorrowerId, Standing>,
    /// Borrowers that found nothing and have room, in the order in which they are rung.
    waiting: VecDeque<BorrowerId>,
    last_ticket: u64,
    last_borrower: u64,
    /// Nothing is to wait for a borrower: the worker stops, or it has none for now.
    pub(super) stops: bool,
    pub(super) rests: bool,
    /// Told when a borrower comes or goes.
    pub(super) attendance: Option<Arc<Notify>>,
    /// Told when a job is on offer, while somebody waits for that who looks after those that nobody takes.
    pub(super) watcher: Option<Arc<Notify>>,
    closed: bool,
}

impl Lender {
    /// The outcome of a job that was handed in, or else who waits for it.
    pub(super) fn outcome(&self, ticket: Ticket, waker: &Waker) -> Option<Outcome> {
        if cfg!(feature = "bug_lost_hand_in") {
            let known = self.lock().take_outcome(ticket);
            return known.or_else(|| {
                self.lock().set_waker(ticket, waker);
                None
            });
        }
        let mut loans = self.lock();
        let known = loans.take_outcome(ticket);
        if known.is_none() {
            loans.set_waker(ticket, waker);
        }
        known
    }
}

impl Loans {
    /// Offers a job by itself.
    pub(super) fn offer(&mut self, args: Bytes, context: Context, calls: &mut Calls) -> Ticket {
        let ticket = self.following_ticket();
        self.add_offer(ticket, args, context, Waits::Nobody);
        self.hand_back_if_due(calls);
        self.ring_next(calls);
        ticket
    }

    /// Offers a job for which no future is to wait. It comes back where one has to: nothing is lent any more, or the job should stop.
    pub(super) fn offer_unattended(
        &mut self,
        (args, context, job): (Bytes, Context, Box<Unattended>),
        calls: &mut Calls,
    ) -> Option<(Ticket, Box<Unattended>)> {
        // Looked at under the lock: who is told to stop after this is found in the table.
        if self.stops || self.rests || context.should_stop() {
            return Some((self.offer(args, context, calls), job));
        }
        self.add_offer(self.following_ticket(), args, context, Waits::Queue(job));
        self.ring_next(calls);
        None
    }

    /// That of the job that is offered next.
    pub(super) fn following_ticket(&self) -> Ticket {
        Ticket(self.last_ticket + 1)
    }

    /// Offers a job of this batch. Nobody is rung yet.
    pub(super) fn add_offer(&mut self, batch: Ticket, args: Bytes, context: Context, waits: Waits) {
        let ticket = self.following_ticket();
        self.last_ticket = ticket.0;
        self.jobs.insert(ticket, Loan { batch, stage: Stage::Offered(args, Box::new(context)), waits });
        self.offered.push_back(ticket);
    }

    /// Those of the unattended jobs that `which` selects: a future is to wait for them.
    pub(super) fn take_unattended(
        &mut self,
        which: impl Fn(&Unattended) -> bool,
    ) -> Vec<(Ticket, Box<Unattended>)> {
        let mut found = Vec::new();
        for (ticket, loan) in &mut self.jobs {
            match std::mem::replace(&mut loan.waits, Waits::Nobody) {
                Waits::Queue(job) if which(&job) => found.push((*ticket, job)),
                other => loan.waits = other,
            }
        }
        found.sort_unstable_by_key(|(ticket, _)| *ticket);
        found
    }

    fn take_outcome(&mut self, ticket: Ticket) -> Option<Outcome> {
        let Entry::Occupied(loan) = self.jobs.entry(ticket) else { return None };
        if !matches!(loan.get().stage, Stage::HandedIn(_)) {
            return None;
        }
        match loan.remove().stage {
            Stage::HandedIn(outcome) => Some(outcome),
            Stage::Offered(..) | Stage::Lent(_) => None,
        }
    }

    fn set_waker(&mut self, ticket: Ticket, waker: &Waker) {
        if let Some(loan) = self.jobs.get_mut(&ticket) {
            match &mut loan.waits {
                Waits::Task(known) => known.clone_from(waker),
                other => *other = Waits::Task(waker.clone()),
            }
        }
    }

    /// The futures that wait for batches: their tasks are to look whether one should stop.
    pub(super) fn wake_batches(&mut self, calls: &mut Calls) {
        calls.wakers.extend(self.batches.values_mut().filter_map(Outcomes::take_waker));
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
            Some(Stage::Offered(_, context)) => {
                // The time of its batch may wait for it.
                if let Some(switch) = context.known_switch() {
                    switch.take_off_offer();
                }
                if let Ok(at) = self.offered.binary_search(&ticket) {
                    self.offered.remove(at);
                }
            }
            Some(Stage::Lent(borrower)) => {
                if let Some(standing) = self.borrowers.get_mut(&borrower) {
                    standing.has -= 1;
                }
                if !cfg!(feature = "bug_lost_eviction") {
                    self.tell(borrower, News::Evicted(ticket), calls);
                }
            }
            Some(Stage::HandedIn(_)) | None => {}
        }
    }

    /// Enters outcomes; how many of them were refused.
    pub(super) fn hand_in(&mut self, by: BorrowerId, done: &mut Vec<HandIn>, calls: &mut Calls) -> u32 {
        let (mut accepted, mut refused) = (0, 0);
        for HandIn { ticket, outcome } in done.drain(..) {
            let has = self.jobs.get(&ticket).is_some_and(|loan| loan.is_lent_to(by));
            match has {
                true => self.settle(ticket, outcome, calls),
                false => refused += 1,
            }
            accepted += usize::from(has);
        }
        if let Some(standing) = self.borrowers.get_mut(&by) {
            standing.has -= accepted;
        }
        refused
    }

    fn settle(&mut self, ticket: Ticket, outcome: Outcome, calls: &mut Calls) {
        let Entry::Occupied(mut entry) = self.jobs.entry(ticket) else { return };
        let loan = entry.get_mut();
        match std::mem::replace(&mut loan.waits, Waits::Nobody) {
            Waits::Queue(job) => {
                calls.ended.push((job, outcome));
                entry.remove();
            }
            Waits::Task(waker) => {
                loan.stage = Stage::HandedIn(outcome);
                calls.wakers.push(waker);
            }
            Waits::Batch => {
                let batch = entry.remove().batch;
                self.enter(batch, ticket, outcome, calls);
            }
            Waits::Nobody => loan.stage = Stage::HandedIn(outcome),
        }
    }

    /// Enters what became of a job of a batch.
    pub(super) fn enter(&mut self, batch: Ticket, ticket: Ticket, outcome: Outcome, calls: &mut Calls) {
        if let Some(outcomes) = self.batches.get_mut(&batch) {
            calls.wakers.extend(outcomes.enter((ticket.0 - batch.0) as usize, outcome));
        }
    }

    /// Lends the oldest jobs, and batches whole. What has to stop by now, or is too late, is not lent.
    pub(super) fn lend(&mut self, to: BorrowerId, room: Room, lent: &mut Vec<LentJob>, calls: &mut Calls) {
        if !self.borrowers.contains_key(&to) {
            return;
        }
        let (mut jobs, mut bytes, mut begun) = (0, 0, None);
        while let Some(&ticket) = self.offered.front() {
            let batch = self.jobs.get(&ticket).map(|loan| loan.batch);
            let has_room = jobs < room.jobs && (jobs == 0 || bytes < room.bytes);
            if !has_room && (begun.is_none() || batch != begun) {
                break;
            }
            self.offered.pop_front();
            let Some(loan) = self.jobs.get_mut(&ticket) else { continue };
            let Stage::Offered(args, context) = std::mem::replace(&mut loan.stage, Stage::Lent(to)) else {
                continue;
            };
            if context.known_switch().is_some_and(|switch| switch.take_off_offer()) {
                let of_batch = self.batches.get_mut(&loan.batch).and_then(Outcomes::take_waker);
                calls.wakers.extend(of_batch.or_else(|| loan.waits.take_waker()));
            }
            let instead = context.should_stop().then(not_started);
            if let Some(outcome) = instead.or_else(|| context.expired_outcome()) {
                self.settle(ticket, outcome, calls);
                continue;
            }
            if let Waits::Queue(job) = &mut loan.waits
                && let Some(begun) = &mut job.begun
            {
                begun.starts_now();
            }
            (jobs, bytes, begun) = (jobs + 1, bytes + args.len(), Some(loan.batch));
            lent.push(LentJob { ticket, batch: loan.batch, args, context: *context });
        }
        if let Some(standing) = self.borrowers.get_mut(&to) {
            standing.has += jobs;
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
    pub(super) fn ring_next(&mut self, calls: &mut Calls) {
        if self.offered.is_empty() {
            return;
        }
        if self.watcher.is_some() {
            calls.watcher = self.watcher.take();
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

    pub(super) fn add_borrower(&mut self, bell: Arc<dyn Bell>, calls: &mut Calls) -> BorrowerId {
        self.rests = false;
        calls.attendance.clone_from(&self.attendance);
        self.last_borrower += 1;
        let id = BorrowerId(self.last_borrower);
        let standing = Standing { bell, rung: false, waits: false, news: Vec::new(), has: 0 };
        self.borrowers.insert(id, standing);
        id
    }

    pub(super) fn remove_borrower(&mut self, id: BorrowerId, outcome: &Outcome, calls: &mut Calls) {
        if self.borrowers.remove(&id).is_none() {
            return;
        }
        calls.attendance.clone_from(&self.attendance);
        self.waiting.retain(|waiting| *waiting != id);
        let its = self.jobs.iter().filter(|(_, loan)| loan.is_lent_to(id)).map(|(ticket, _)| *ticket);
        let mut its: Vec<_> = its.collect();
        its.sort_unstable();
        for ticket in its {
            self.settle(ticket, outcome.clone(), calls);
        }
        // It may have been rung for a job that is still there.
        self.ring_next(calls);
    }

    pub(super) fn has(&self, borrower: BorrowerId) -> usize {
        self.borrowers.get(&borrower).map_or(0, |standing| standing.has)
    }

    pub(super) fn offered(&self) -> usize {
        self.offered.len()
    }

    pub(super) fn has_borrowers(&self) -> bool {
        !self.borrowers.is_empty()
    }

    /// The worker stops: what nobody has taken goes back, and so does what is offered from now on.
    pub(super) fn stop(&mut self, calls: &mut Calls) {
        self.stops = true;
        self.hand_back_if_due(calls);
    }

    /// The same until there is a borrower again, unless there is.
    pub(super) fn rest(&mut self, calls: &mut Calls) {
        self.rests = self.borrowers.is_empty();
        self.hand_back_if_due(calls);
    }

    /// What was just offered goes back where nobody is to take it.
    pub(super) fn hand_back_if_due(&mut self, calls: &mut Calls) {
        if !self.stops && !self.rests {
            return;
        }
        for ticket in Vec::from_iter(self.offered.iter().copied()) {
            self.give_back(ticket, calls);
        }
    }

    /// What nobody has goes back, as if it had not been begun. Whether nobody has it.
    pub(super) fn give_back(&mut self, ticket: Ticket, calls: &mut Calls) -> bool {
        let Ok(at) = self.offered.binary_search(&ticket) else { return false };
        self.offered.remove(at);
        if let Some(Loan { stage: Stage::Offered(_, context), .. }) = self.jobs.get(&ticket) {
            context.switch().give_back();
        }
        self.settle(ticket, not_wanted(), calls);
        true
    }

    /// The jobs of this queue that nobody has, the oldest first.
    pub(super) fn on_offer(&self, queue: &str) -> Vec<(Ticket, JobId)> {
        let of_queue = |ticket: &Ticket| match &self.jobs.get(ticket)?.stage {
            Stage::Offered(_, context) => (*context.scope().queue == *queue).then(|| (*ticket, context.id())),
            Stage::Lent(_) | Stage::HandedIn(_) => None,
        };
        self.offered.iter().filter_map(of_queue).collect()
    }

    pub(super) fn close(&mut self, calls: &mut Calls) {
        self.closed = true;
        self.borrowers.values_mut().for_each(|standing| standing.ring(calls));
    }
}
