use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};
use windlass::{
    Context, Outcome,
    lend::{Bell, Borrower, Exchanged, HandIn, Lender, LentJob, News, Room, StopReason, Ticket},
};

/// Where one event loop, thread or child process takes its jobs. Dropping it fails those that it has.
#[derive(Debug)]
pub struct Desk {
    borrower: Borrower,
    /// Of the jobs that it has, where whoever runs them does not keep them.
    contexts: Option<Mutex<HashMap<u64, Context>>>,
}

/// What an exchange brought.
#[derive(Debug, Default)]
pub struct Exchange {
    /// Jobs to run.
    pub jobs: Vec<LentJob>,
    /// What happened to jobs that this desk has, or had.
    pub told: Vec<Told>,
    /// Further jobs wait for somebody with room.
    pub more: bool,
    /// The worker ended: no job will come any more.
    pub closed: bool,
    /// How many outcomes came too late, twice, or for a job of somebody else.
    pub refused: u32,
}

/// What happened to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// It should stop; what is handed in soon after counts.
    Cancel {
        /// The job's.
        ticket: u64,
        /// `cancelled`, `timeout`, `shutdown` or `lost`.
        reason: &'static str,
    },
    /// It is no longer this desk's: nothing that is handed in for it counts.
    Dropped {
        /// The job's.
        ticket: u64,
    },
}

impl Desk {
    /// Makes one. The bell rings when there is a job or something else to be told, at most once until the next exchange.
    pub fn new(lender: &Lender, bell: impl Bell) -> Self {
        Self { borrower: lender.borrower(bell), contexts: Some(Mutex::default()) }
    }

    /// The same, but that [`Self::context`] knows no job: for those who keep what an exchange brings.
    #[must_use]
    pub fn without_contexts(self) -> Self {
        Self { contexts: None, ..self }
    }

    /// Hands in what is done, and takes as many jobs as there is room for. Never waits.
    pub fn exchange(&self, done: impl IntoIterator<Item = (u64, Outcome)>, room: Room) -> Exchange {
        let exchange = self.turn(done, room);
        self.keep(exchange.jobs.iter().map(|job| (job.ticket.0, job.context.clone())));
        exchange
    }

    /// Takes jobs that are there, for who still has something to hand in. The bell rings for no job that comes later: [`Self::exchange`] does that.
    pub fn take(&self, room: Room) -> Exchange {
        let mut jobs = Vec::new();
        let exchanged = self.borrower.take(room, &mut jobs);
        let exchange = self.exchanged(jobs, exchanged);
        self.keep(exchange.jobs.iter().map(|job| (job.ticket.0, job.context.clone())));
        exchange
    }

    /// [`Self::exchange`] for who needs its jobs no longer than it takes to look at them.
    pub fn exchange_seen<T>(
        &self,
        done: impl IntoIterator<Item = (u64, Outcome)>,
        room: Room,
        see: impl FnOnce(&Exchange) -> T,
    ) -> T {
        let exchange = self.turn(done, room);
        let seen = see(&exchange);
        self.keep(exchange.jobs.into_iter().map(|job| (job.ticket.0, job.context)));
        seen
    }

    fn turn(&self, done: impl IntoIterator<Item = (u64, Outcome)>, room: Room) -> Exchange {
        let hand_in = |(ticket, outcome)| HandIn { ticket: Ticket(ticket), outcome };
        let mut done: Vec<_> = done.into_iter().map(hand_in).collect();
        if let Some(mut contexts) = self.contexts() {
            done.iter().for_each(|done| _ = contexts.remove(&done.ticket.0));
        }
        let mut jobs = Vec::new();
        let exchanged = self.borrower.exchange(&mut done, room, &mut jobs);
        self.exchanged(jobs, exchanged)
    }

    fn exchanged(&self, jobs: Vec<LentJob>, exchanged: Exchanged) -> Exchange {
        let Exchanged { news, more, closed, refused, .. } = exchanged;
        let told = news.into_iter().map(told).collect::<Vec<_>>();
        if !told.is_empty()
            && let Some(mut contexts) = self.contexts()
        {
            told.iter().for_each(|told| {
                if let Told::Dropped { ticket } = told {
                    contexts.remove(ticket);
                }
            });
        }
        Exchange { jobs, told, more, closed, refused }
    }

    fn keep(&self, jobs: impl Iterator<Item = (u64, Context)>) {
        if let Some(mut contexts) = self.contexts() {
            contexts.extend(jobs);
        }
    }

    /// What is known of a job that this desk has, and where its progress, log and checkpoints go; `None` when it has it no more.
    pub fn context(&self, ticket: u64) -> Option<Context> {
        self.contexts()?.get(&ticket).cloned()
    }

    /// Ends it, and fails the jobs that it has with this error.
    pub fn end(self, error: &str) {
        self.borrower.end(error);
    }

    /// Ends it together with its worker: the jobs that it has go back, and their attempts do not count.
    pub fn give_back(self) {
        self.borrower.give_back();
    }

    fn contexts(&self) -> Option<MutexGuard<'_, HashMap<u64, Context>>> {
        Some(self.contexts.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn told(news: News) -> Told {
    match news {
        News::Interrupt(Ticket(ticket), reason) => Told::Cancel { ticket, reason: name(reason) },
        News::Evicted(Ticket(ticket)) => Told::Dropped { ticket },
    }
}

fn name(reason: StopReason) -> &'static str {
    match reason {
        StopReason::Cancelled => "cancelled",
        StopReason::TimedOut => "timeout",
        StopReason::WorkerStops => "shutdown",
        StopReason::LeaseLost => "lost",
    }
}
