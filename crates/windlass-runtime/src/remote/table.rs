//! What one worker that runs elsewhere has.

use super::{
    Beat, RemoteJob, RemoteWorker,
    limits::{Limits, Want},
};
use crate::{
    QueueConfig,
    epoch::Phase,
    expiry::{Expiry, instead_of_start},
    job_reporter::JobReporter,
    lend::Ticket,
    meter::{Begun, waited},
    popped::is_suspect,
};
use jiff::Timestamp;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, hash_map::Entry},
    sync::Arc,
    time::Duration,
};
use tokio::time::Instant;
use windlass_core::{ClaimRef, Disposition, Exception, Heartbeat, JobId, WorkerId};

/// A job that the store counts as this worker's.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) given: RemoteJob,
    pub(super) claim: ClaimRef,
    /// How many jobs its claim had.
    pub(super) claimed: usize,
    /// When the claim was asked for.
    pub(super) asked_at: Instant,
    /// When it was claimed, by the store's clock.
    pub(super) claimed_at: Option<Timestamp>,
    /// When the worker was given it; `None`: it is kept here.
    pub(super) handed_at: Option<Instant>,
    /// How many calls settle it just now.
    pub(super) settling: u32,
    /// The worker was told that its time is over.
    pub(super) told_late: bool,
    /// Its time, or that to stop it, and the grace are over: it is not the worker's any more.
    pub(super) timed_out: bool,
    /// What is said of it, once something is.
    pub(super) reporter: Option<Arc<JobReporter>>,
}

impl Held {
    /// One that was claimed, and is kept here.
    pub(super) fn new(
        given: RemoteJob,
        (claim, claimed): (ClaimRef, usize),
        asked_at: Instant,
        claimed_at: Option<Timestamp>,
    ) -> Self {
        Self {
            given,
            claim,
            claimed,
            asked_at,
            claimed_at,
            handed_at: None,
            settling: 0,
            told_late: false,
            timed_out: false,
            reporter: None,
        }
    }

    /// Whether the worker has it.
    fn is_handed(&self) -> bool {
        self.handed_at.is_some() && !self.timed_out
    }

    pub(super) fn exception(&self, disposition: Disposition) -> Exception {
        let job = &self.given.job;
        Exception { claim: self.claim, job: job.id, position: job.position, disposition }
    }

    /// Its attempt, if the worker was given it.
    pub(super) fn begun(&self) -> Option<Begun> {
        let (job, started) = (&self.given.job, self.handed_at?);
        Some(Begun::new(job, waited(job, self.claimed_at, self.asked_at, started), started, 1))
    }

    /// What becomes of a job that is not to be started any more.
    fn instead_of_start(&self, cancelled: &HashSet<JobId>) -> Option<Disposition> {
        let job = &self.given.job;
        let is_over = |left| self.asked_at.elapsed() >= left;
        instead_of_start(cancelled.contains(&job.id), Expiry::of(job).as_ref(), is_over)
    }
}

/// What follows from the end of a job.
pub(super) struct Over {
    /// It was the one that ran alone.
    pub(super) was_alone: bool,
    /// The store may have to know because of limits.
    pub(super) frees: bool,
}

/// Of so many jobs that took too long it is remembered that a late outcome is refused; older ones were settled by somebody.
const MOST_TIMED_OUT: usize = 10_000;

/// The jobs of one registration. Bounded by the concurrency of its queues.
#[derive(Debug)]
pub(super) struct Table {
    phase: Phase,
    pub(super) most: Want,
    /// How many jobs claims under way may bring.
    coming: Want,
    pub(super) jobs: BTreeMap<Ticket, Held>,
    last: u64,
    /// Tickets that the store did not take.
    refused: BTreeSet<Ticket>,
    /// The newest tickets whose time was over before the worker said what became of them.
    timed_out: BTreeSet<Ticket>,
    /// What is to be settled of jobs that were never given to the worker.
    pub(super) owed: Vec<Exception>,
    /// The suspect that the worker has: one at a time.
    pub(super) alone: Option<Ticket>,
    pub(super) limits: Limits,
    cancelled: HashSet<JobId>,
    /// When the worker was told first that a job is to be cancelled.
    told: HashMap<JobId, Instant>,
    /// Somebody asked the worker to drain; whether it was told.
    drain: bool,
    told_drain: bool,
    /// `None`: the store has something to say.
    renewed_at: Option<Instant>,
}

impl Table {
    pub(super) fn new(queues: &[QueueConfig]) -> Self {
        Self {
            phase: Phase::Live,
            most: queues.iter().map(|queue| (queue.queue.as_str().into(), queue.concurrency)).collect(),
            coming: Want::new(),
            jobs: BTreeMap::new(),
            last: 0,
            refused: BTreeSet::new(),
            timed_out: BTreeSet::new(),
            owed: Vec::new(),
            alone: None,
            limits: Limits::default(),
            cancelled: HashSet::new(),
            told: HashMap::new(),
            drain: false,
            told_drain: false,
            renewed_at: Some(Instant::now()),
        }
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    /// Moves on to `phase`; never back.
    pub(super) fn advance(&mut self, phase: Phase) {
        if phase as u8 > self.phase as u8 {
            self.phase = phase;
        }
    }

    pub(super) fn is_fresh(&self, within: Duration) -> bool {
        self.renewed_at.is_some_and(|at| at.elapsed() < within)
    }

    pub(super) fn told(&mut self) {
        self.renewed_at = None;
        self.limits_changed();
    }

    pub(super) fn renewed(&mut self, at: Instant, heartbeat: &Heartbeat) {
        (self.renewed_at, self.drain) = (Some(at), heartbeat.drain);
        self.cancelled = heartbeat.cancel.iter().copied().collect();
        self.told.retain(|job, _| self.cancelled.contains(job));
    }

    /// Which of the jobs that the worker has are to stop.
    pub(super) fn tell_stops(&mut self) -> Beat {
        let is_news = self.drain && !std::mem::replace(&mut self.told_drain, true);
        let mut beat = Beat { drain: self.drain, is_news, ..Beat::default() };
        for (ticket, held) in self.jobs.iter_mut().filter(|(_, held)| held.is_handed()) {
            let (is_cancelled, is_late) = (self.cancelled.contains(&held.given.job.id), held.is_late());
            if is_cancelled || is_late {
                beat.cancel.push(*ticket);
                if is_cancelled && let Entry::Vacant(told) = self.told.entry(held.given.job.id) {
                    told.insert(Instant::now());
                    beat.is_news = true;
                }
                beat.is_news |= is_late && !std::mem::replace(&mut held.told_late, true);
            }
        }
        beat
    }

    /// When the worker was told that somebody wants this job cancelled.
    pub(super) fn told_to_cancel_at(&self, held: &Held) -> Option<Instant> {
        self.told.get(&held.given.job.id).copied()
    }

    pub(super) fn handed(&self) -> Vec<RemoteJob> {
        self.jobs.values().filter(|held| held.is_handed()).map(|held| held.given.clone()).collect()
    }

    /// The job that the worker has with this ticket.
    pub(super) fn find(&mut self, ticket: Ticket) -> Option<&mut Held> {
        self.jobs.get_mut(&ticket).filter(|held| held.is_handed())
    }

    /// The job of this ticket, which the worker has or (`timed_out`) had for too long: it is being settled from here on, unless it is
    /// [settled](Self::remove) or [not](Self::is_not_settled). With whether somebody wants it cancelled.
    pub(super) fn settle(&mut self, ticket: Ticket, timed_out: bool) -> Option<(&Held, bool)> {
        let held = self
            .jobs
            .get_mut(&ticket)
            .filter(|held| held.handed_at.is_some() && held.timed_out == timed_out)?;
        held.settling += 1;
        Some((held, self.cancelled.contains(&held.given.job.id)))
    }

    /// The store did not settle it.
    pub(super) fn is_not_settled(&mut self, ticket: Ticket) {
        self.jobs.entry(ticket).and_modify(|held| held.settling -= 1);
    }

    /// What takes what the worker says of this job that it has.
    pub(super) fn reporter(&mut self, ticket: Ticket) -> Option<(JobId, Arc<JobReporter>)> {
        let held = self.find(ticket)?;
        let (claim, job) = (held.claim, &held.given.job);
        let new = || Arc::new(JobReporter::new(claim, job.id, job.position, job.attempt));
        Some((job.id, Arc::clone(held.reporter.get_or_insert_with(new))))
    }

    /// Whether this ticket was good once, and its job is settled.
    pub(super) fn was_settled(&self, ticket: Ticket) -> bool {
        (1..=self.last).contains(&ticket.0)
            && !self.jobs.contains_key(&ticket)
            && !self.refused.contains(&ticket)
            && !self.timed_out.contains(&ticket)
    }

    /// The job is over for this worker.
    pub(super) fn remove(&mut self, worker: WorkerId, ticket: Ticket, refused: bool) -> Over {
        if refused {
            self.refused.insert(ticket);
        }
        let removed = self.jobs.remove(&ticket);
        if let Some(held) = &removed {
            // Another attempt of it was not asked to stop, until the store says so.
            self.cancelled.remove(&held.given.job.id);
            self.told.remove(&held.given.job.id);
        }
        if removed.as_ref().is_some_and(|held| held.timed_out) {
            self.timed_out.insert(ticket);
            while self.timed_out.len() > MOST_TIMED_OUT {
                self.timed_out.pop_first();
            }
        }
        let frees = removed.is_some_and(|held| self.limits.ended(&held.given.queue, worker));
        Over { was_alone: self.alone == Some(ticket), frees }
    }

    /// No suspect runs any more, as far as the store knows.
    pub(super) fn is_over(&mut self, suspect: Ticket) {
        self.alone.take_if(|alone| *alone == suspect);
    }

    /// The suspect was not given out; it stays here.
    pub(super) fn is_not_started(&mut self, worker: WorkerId, suspect: Ticket) {
        self.is_over(suspect);
        if let Some(held) = self.jobs.get(&suspect) {
            self.limits.ended(&held.given.queue, worker);
        }
    }

    /// How many jobs to claim, of those that are wanted (`None`: as many as there is room for). They are reserved.
    pub(super) fn reserve(&mut self, want: Option<&Want>) -> Want {
        let mut asked = Want::new();
        if self.phase != Phase::Live || !self.has_room() {
            return asked;
        }
        for (queue, most) in &self.most {
            let has = self.jobs.values().filter(|held| held.given.queue == *queue).count();
            let coming = self.coming.get(queue).copied().unwrap_or_default();
            let wanted = want.map_or(usize::MAX, |want| want.get(queue).copied().unwrap_or_default());
            let wanted = wanted.min(self.room_of(queue, coming));
            let count = most.saturating_sub(has + coming).min(wanted);
            if count > 0 {
                asked.insert(Arc::clone(queue), count);
            }
        }
        for (queue, count) in &asked {
            *self.coming.entry(Arc::clone(queue)).or_default() += count;
        }
        asked
    }

    /// A claim ended.
    pub(super) fn release(&mut self, asked: &Want) {
        for (queue, count) in asked {
            self.coming.entry(Arc::clone(queue)).and_modify(|coming| *coming = coming.saturating_sub(*count));
        }
    }

    /// Keeps a job that was claimed.
    pub(super) fn keep(&mut self, held: impl FnOnce(Ticket) -> Held) {
        self.last += 1;
        let ticket = Ticket(self.last);
        self.jobs.insert(ticket, held(ticket));
    }

    fn bytes(&self) -> usize {
        self.jobs.values().filter(|held| held.handed_at.is_some()).map(|held| held.given.job.args.len()).sum()
    }

    fn has_room(&self) -> bool {
        self.bytes() < RemoteWorker::MOST_BYTES
    }

    /// Gives the worker what is kept and wanted. The other half is a suspect, which it gets once the store knows.
    pub(super) fn hand_out(&mut self, want: Option<&Want>) -> (Vec<RemoteJob>, Option<RemoteJob>) {
        // It ended while its claim was under way: others have these jobs.
        if self.phase == Phase::Lost {
            return (Vec::new(), None);
        }
        let mut left: Want = want.unwrap_or(&self.most).clone();
        let (mut bytes, mut given, mut suspect) = (self.bytes(), Vec::new(), None);
        let kept: Vec<Ticket> = self
            .jobs
            .iter()
            .filter(|(_, held)| held.handed_at.is_none())
            .map(|(ticket, _)| *ticket)
            .collect();
        for ticket in kept {
            let Some(held) = self.jobs.get_mut(&ticket) else { continue };
            if let Some(instead) = held.instead_of_start(&self.cancelled) {
                self.owed.push(held.exception(instead));
                self.jobs.remove(&ticket);
                continue;
            }
            let Some(left) = left.get_mut(&held.given.queue).filter(|left| **left > 0) else { continue };
            let (queue, cost) = (&held.given.queue, held.given.job.cost());
            if !self.limits.may_start(queue, cost) {
                // Those behind it wait for their turn.
                *left = 0;
                continue;
            }
            let size = held.given.job.args.len();
            if bytes > 0 && bytes + size > RemoteWorker::MOST_BYTES {
                break;
            }
            if is_suspect(&held.given.job) {
                if self.alone.is_some() {
                    continue;
                }
                self.alone = Some(ticket);
                self.limits.started(queue, cost);
                suspect = Some(held.given.clone());
            } else {
                held.handed_at = Some(Instant::now());
                self.limits.started(queue, cost);
                given.push(held.given.clone());
            }
            bytes += size;
            *left -= 1;
        }
        (given, suspect)
    }

    /// The store knows that the suspect runs. Whether it still may.
    pub(super) fn hand_suspect(&mut self, ticket: Ticket) -> bool {
        self.jobs.get_mut(&ticket).is_some_and(|held| {
            held.handed_at = Some(Instant::now());
            true
        })
    }
}
