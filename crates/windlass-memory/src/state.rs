use crate::{
    clock::Clock,
    counters::Counters,
    event_log::EventLog,
    holder::Holder,
    job::{Hold, Job, Place},
    lane::Lane,
    moves::{Move, Watchers},
    queue::Queue,
};
use jiff::Timestamp;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};
use windlass_core::{
    AuditEntry, AuditId, ClaimRef, Disposition, Error, ErrorKind, EventType, JobId, JobState, Load, Result,
    RetentionRule, ScheduleRecord, Settings, Timing, UniqueKey, WorkerId, WorkerSpec,
};

/// Everything that a store keeps.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) clock: Clock,
    pub(crate) settings: Settings,
    /// What is kept of queues and outcomes, those of every queue first.
    pub(crate) retention: BTreeMap<(Option<String>, JobState), RetentionRule>,
    pub(crate) jobs: BTreeMap<JobId, Job>,
    /// In the order of their first use.
    pub(crate) lanes: Vec<Lane>,
    pub(crate) queues: BTreeMap<Arc<str>, Queue>,
    /// Scheduled and retryable jobs by when they are due.
    pub(crate) due: BTreeSet<(Timestamp, JobId)>,
    /// Jobs in a final state by when they reached it.
    pub(crate) finished: BTreeSet<(Timestamp, JobId)>,
    pub(crate) claims: HashMap<u64, ClaimState>,
    /// What workers hold.
    pub(crate) held: BTreeSet<JobId>,
    /// The jobs of serial keys that were handed out and are not over: until then no other job of the key is.
    pub(crate) begun: BTreeSet<JobId>,
    pub(crate) workers: BTreeMap<WorkerId, Worker>,
    /// Idempotency keys: when each was used and for which jobs.
    pub(crate) keys: HashMap<String, (Timestamp, Vec<JobId>)>,
    /// Which job has each unique key, or had it last.
    pub(crate) unique: HashMap<UniqueKey, Holder>,
    pub(crate) leader: Option<(WorkerId, Timestamp)>,
    pub(crate) schedules: BTreeMap<String, ScheduleRecord>,
    pub(crate) audit: BTreeMap<AuditId, AuditEntry>,
    /// What workers measured, by the minute, queue and kind.
    pub(crate) timings: BTreeMap<(Timestamp, String, String), Timing>,
    /// The last number given to a job, to a place in the order, to a claim, to a worker, to a version of a schedule and to an audit entry.
    pub(crate) last: Numbers,
    pub(crate) watchers: Watchers,
    pub(crate) events: EventLog,
    pub(crate) counters: Counters,
}

#[derive(Debug, Default)]
pub(crate) struct Numbers {
    pub(crate) job: i64,
    pub(crate) order: i64,
    pub(crate) claim: u64,
    pub(crate) worker: i32,
    pub(crate) schedule: i64,
    pub(crate) audit: i64,
}

/// A claim that may have unsettled jobs.
#[derive(Debug)]
pub(crate) struct ClaimState {
    pub(crate) token: u64,
    pub(crate) worker: WorkerId,
    /// Every job of it.
    pub(crate) jobs: Vec<JobId>,
    /// Those without a settlement.
    pub(crate) open: BTreeSet<JobId>,
}

#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) spec: WorkerSpec,
    pub(crate) started_at: Timestamp,
    pub(crate) heartbeat_at: Timestamp,
    /// Since when no two heartbeats were half a lease apart.
    pub(crate) in_touch_since: Timestamp,
    pub(crate) ended_at: Option<Timestamp>,
    pub(crate) suspect: Option<JobId>,
    pub(crate) draining: bool,
    pub(crate) load: Load,
}

impl State {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            settings: Settings::DEFAULT,
            retention: BTreeMap::new(),
            jobs: BTreeMap::new(),
            lanes: Vec::new(),
            queues: BTreeMap::new(),
            due: BTreeSet::new(),
            finished: BTreeSet::new(),
            claims: HashMap::new(),
            held: BTreeSet::new(),
            begun: BTreeSet::new(),
            workers: BTreeMap::new(),
            keys: HashMap::new(),
            unique: HashMap::new(),
            leader: None,
            schedules: BTreeMap::new(),
            audit: BTreeMap::new(),
            timings: BTreeMap::new(),
            last: Numbers::default(),
            watchers: Watchers::default(),
            events: EventLog::new(),
            counters: Counters::default(),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The queue's one name; makes it on first use.
    pub(crate) fn queue(&mut self, name: &str) -> Arc<str> {
        if let Some((name, _)) = self.queues.get_key_value(name) {
            return Arc::clone(name);
        }
        let name: Arc<str> = name.into();
        self.queues.insert(Arc::clone(&name), Queue::default());
        name
    }

    /// The lane's index; makes it on first use.
    pub(crate) fn lane(&mut self, queue: &str, priority: i16) -> usize {
        let known = self.lanes.iter().position(|lane| &*lane.queue == queue && lane.priority == priority);
        known.unwrap_or_else(|| {
            let queue = self.queue(queue);
            self.lanes.push(Lane::new(queue, priority));
            self.lanes.len() - 1
        })
    }

    /// Refuses a worker whose lease was taken or that never registered.
    pub(crate) fn fence(&self, worker: WorkerId) -> Result<()> {
        match self.workers.get(&worker) {
            Some(Worker { ended_at: None, .. }) => Ok(()),
            _ => Err(Error::new(ErrorKind::LeaseLost, format!("worker {worker} lost its lease"))),
        }
    }

    /// Whether somebody wants a job cancelled that runs.
    pub(crate) fn is_cancel_asked(&self, id: JobId) -> bool {
        self.jobs.get(&id).is_some_and(|job| job.cancel_asked)
    }

    /// The attempt that ended with the job, or failed, is one of those that it had.
    pub(crate) fn count_attempt(&mut self, id: JobId) {
        if let Some(job) = self.jobs.get_mut(&id) {
            job.attempt += 1;
        }
    }

    /// Takes a job out of wherever it is and puts it there. The only way that a job moves. One that is to be cancelled
    /// does not come back from its worker.
    pub(crate) fn move_job(&mut self, id: JobId, place: Place) {
        self.take_out(id);
        let at = self.now();
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let is_cancelled = std::mem::take(&mut job.cancel_asked) && place.finished_at().is_none();
        let place = match is_cancelled {
            true => Place::Cancelled { at, reason: Disposition::BY_REQUEST.to_owned() },
            false => place,
        };
        let (from, to) = (job.place.state(), place.state());
        // A job that runs under no lease is one that was just enqueued.
        let came_back = from == JobState::Running && job.held.is_some();
        job.never_put_off &=
            !came_back && !matches!(place, Place::Scheduled(_) | Place::Retryable(_) | Place::NoHandler);
        job.available_since = match &job.place {
            Place::Scheduled(due) | Place::Retryable(due) => at.min(*due),
            Place::Available(_) | Place::NoHandler => job.available_since,
            // A job that runs under no lease is one that was just enqueued.
            Place::Running if job.held.is_none() => job.available_since,
            _ => at,
        };
        job.place = place;
        let is_held = from == JobState::Running || to == JobState::Running;
        let lease = job.held.filter(|_| is_held).map(|held| held.lease(id));
        let from = (from != JobState::Running || lease.is_some()).then_some(from);
        self.put_in(id);
        self.watchers.tell(Move { job: id, from, to, lease });
        self.note_end(id, from, to);
    }

    /// What a move says by itself.
    fn note_end(&mut self, id: JobId, from: Option<JobState>, to: JobState) {
        let Some(job) = self.jobs.get(&id) else { return };
        let worker = job.held.map(|held| held.worker);
        let reason = match &job.place {
            Place::Cancelled { reason, .. } | Place::Discarded { reason, .. } => Some(reason.clone()),
            _ => None,
        };
        let attempt = job.attempt;
        let (what, attempt, worker) = match to {
            _ if from.is_none() => (EventType::Enqueued, 0, None),
            JobState::Running => (EventType::Started, attempt + 1, worker),
            JobState::Completed => (EventType::Completed, attempt + 1, worker),
            JobState::Cancelled => (EventType::Cancelled, attempt, None),
            JobState::Discarded => (EventType::Discarded, attempt, None),
            _ => return,
        };
        self.note(id, what, attempt, worker, reason.as_deref());
    }

    /// Puts a job into the index of its place.
    fn put_in(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        let lane = &mut self.lanes[job.lane];
        match &job.place {
            Place::Available(order) => drop(lane.available.insert(*order, id)),
            Place::NoHandler => drop(lane.no_handler.insert(id)),
            Place::Scheduled(at) | Place::Retryable(at) => drop(self.due.insert((*at, id))),
            Place::Running => drop(self.held.insert(id)),
            done => {
                done.finished_at().map(|at| self.finished.insert((at, id)));
                self.begun.remove(&id);
            }
        }
    }

    /// Takes a job out of every index.
    pub(crate) fn take_out(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        let lane = &mut self.lanes[job.lane];
        match &job.place {
            Place::Available(order) => drop(lane.available.remove(order)),
            Place::NoHandler => drop(lane.no_handler.remove(&id)),
            Place::Scheduled(at) | Place::Retryable(at) => drop(self.due.remove(&(*at, id))),
            Place::Running => {
                self.held.remove(&id);
                let claim = job.held.and_then(|held| self.claims.get_mut(&held.claim.1));
                claim.map(|claim| claim.open.remove(&id));
                self.let_go(id);
            }
            done => drop(done.finished_at().map(|at| self.finished.remove(&(at, id)))),
        }
    }

    /// A job is held no more, unless it was just enqueued, so that nobody held it.
    fn let_go(&mut self, id: JobId) {
        let now = self.now();
        let Some(job) = self.jobs.get(&id).filter(|job| job.held.is_some()) else { return };
        let queue = self.queues.get_mut(&self.lanes[job.lane].queue);
        if let Some((queue, key)) = queue.zip(job.key()) {
            queue.let_go(key, now);
        }
    }

    /// Puts a job into a lane, in the same state; an available one behind all that are available there.
    pub(crate) fn relocate(&mut self, id: JobId, lane: usize) {
        if self.jobs.get(&id).is_none_or(|job| job.lane == lane) {
            return;
        }
        self.take_out(id);
        self.last.order += 1;
        if let Some(job) = self.jobs.get(&id)
            && self.lanes[job.lane].queue != self.lanes[lane].queue
        {
            // In another queue it is as one that was never handed out.
            self.begun.remove(&id);
        }
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.lane = lane;
        if let Place::Available(order) = &mut job.place {
            *order = self.last.order;
        }
        self.put_in(id);
    }

    /// Makes a job available, behind all that are.
    pub(crate) fn make_available(&mut self, id: JobId) {
        self.last.order += 1;
        self.move_job(id, Place::Available(self.last.order));
    }

    /// Hands a job to a claim.
    pub(crate) fn hand_out(&mut self, id: JobId, worker: WorkerId, claim: ClaimRef) -> i64 {
        self.last.order += 1;
        let (order, at) = (self.last.order, self.now());
        if let Some(job) = self.jobs.get_mut(&id) {
            job.held = Some(Hold { claim, worker, at, order });
        }
        self.move_job(id, Place::Running);
        if self.is_serial(id) {
            self.begun.insert(id);
        }
        order
    }

    /// Whether the job is one of a serial key.
    pub(crate) fn is_serial(&self, id: JobId) -> bool {
        let Some(job) = self.jobs.get(&id) else { return false };
        let limits = self.queues.get(&self.lanes[job.lane].queue).and_then(|queue| queue.keys.as_ref());
        limits.zip(job.key()).is_some_and(|(limits, key)| limits.of(key).serial)
    }

    /// Forgets the claim that holds this job, and makes what is open of it available. Which one it was.
    pub(crate) fn forget_claim(&mut self, id: JobId) -> Option<ClaimRef> {
        let job = self.jobs.get(&id).filter(|job| job.place.state() == JobState::Running)?;
        let reference = job.held?.claim;
        let claim = self.claims.remove(&reference.1)?;
        claim.open.into_iter().for_each(|id| self.make_available(id));
        Some(reference)
    }

    /// Forgets a job.
    pub(crate) fn remove(&mut self, id: JobId) {
        self.take_out(id);
        self.begun.remove(&id);
        self.jobs.remove(&id);
    }
}
