use crate::{
    expiry::{Expiry, instead_of_start},
    job_reporter::JobReporter,
    job_switch::JobSwitch,
    meter::{Begun, waited},
    outbox::{Destination, Outbox},
    per_job::PerJob,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering},
    },
};
use jiff::Timestamp;
use std::{
    fmt,
    pin::pin,
    sync::{Arc, PoisonError},
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;
use windlass_core::{ClaimRef, ClaimedJob, Disposition, JobId, WorkerId};

/// Of a claim about so many jobs are measured, evenly spread: a look at the clock costs as much as a tenth of a job that does nothing.
const MEASURED: usize = 32;

/// One registration of this process with the store, from register to deregister: a fencing token and
/// everything that was claimed under it.
///
/// A worker can have several at once. A claim call whose reply was lost leaves jobs that the store counts as
/// held by this worker and that the worker never received. Only deregistering hands them back, so such an epoch
/// *drains*: it claims no more, finishes and settles the jobs that it has, and is deregistered while its successor
/// already claims. A *lost* epoch was refused by the store: its results are worthless and are dropped.
#[derive(Debug)]
pub(crate) struct Epoch {
    worker: WorkerId,
    phase: AtomicU8,
    /// Fires when the running handlers of this epoch should stop.
    interrupt: CancellationToken,
    /// Fires when their futures are dropped.
    eviction: CancellationToken,
    /// Told when somebody wants jobs cancelled.
    cancels: Notify,
    /// Claims that are not settled to the end.
    open_claims: AtomicUsize,
    closed: Notify,
    /// It is to drain as soon as there may be a successor.
    is_to_drain: AtomicBool,
    outbox: Outbox,
    watches: Mutex<Vec<Arc<dyn Watch>>>,
}

/// Is told when jobs should stop. For jobs that run without a future of theirs, which would listen to the tokens.
pub(crate) trait Watch: Send + Sync {
    /// Which of all it is.
    fn identity(&self) -> usize;

    /// These jobs of that epoch should stop; without any named, all of them. Their tokens have fired.
    fn should_stop(&self, epoch: &Epoch, jobs: Option<&[JobId]>);
}

impl fmt::Debug for dyn Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    Live,
    Draining,
    Lost,
}

impl Phase {
    fn of(number: u8) -> Self {
        match number {
            0 => Self::Live,
            1 => Self::Draining,
            _ => Self::Lost,
        }
    }
}

impl Epoch {
    pub(crate) fn new(worker: WorkerId, reports: Arc<Destination>) -> Arc<Self> {
        Arc::new(Self {
            worker,
            phase: AtomicU8::new(Phase::Live as u8),
            interrupt: CancellationToken::new(),
            eviction: CancellationToken::new(),
            cancels: Notify::new(),
            open_claims: AtomicUsize::new(0),
            closed: Notify::new(),
            is_to_drain: AtomicBool::new(false),
            outbox: Outbox::new(reports),
            watches: Mutex::default(),
        })
    }

    fn watches(&self) -> MutexGuard<'_, Vec<Arc<dyn Watch>>> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on somebody is told when jobs of this epoch should stop.
    pub(crate) fn is_watched_by(&self, watch: Arc<dyn Watch>) {
        let mut watches = self.watches();
        if watches.iter().all(|known| known.identity() != watch.identity()) {
            watches.push(watch);
        }
    }

    fn tell(&self, jobs: Option<&[JobId]>) {
        let watches = self.watches().clone();
        watches.iter().for_each(|watch| watch.should_stop(self, jobs));
    }

    /// Tells the handlers of these jobs to stop because they are to be cancelled.
    pub(crate) fn cancel(&self, scope: &ClaimScope, jobs: &[JobId]) {
        jobs.iter().for_each(|job| scope.cancel(*job));
        self.cancels.notify_waiters();
        self.tell(Some(jobs));
    }

    /// Waits until somebody wants all of these jobs cancelled.
    pub(crate) async fn all_cancelled(&self, jobs: &[(Arc<ClaimScope>, JobId)]) {
        let all = || jobs.iter().all(|(scope, job)| scope.is_cancel_asked(*job));
        loop {
            let mut next = pin!(self.cancels.notified());
            next.as_mut().enable();
            if all() {
                return;
            }
            next.await;
        }
    }

    /// The store does not know this claim, of these jobs: tells their handlers to stop.
    pub(crate) fn forget(&self, scope: &ClaimScope, jobs: &[JobId]) {
        scope.forget();
        self.tell(Some(jobs));
    }

    /// What handlers say of the jobs of this epoch.
    pub(crate) fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    pub(crate) fn worker(&self) -> WorkerId {
        self.worker
    }

    pub(crate) fn phase(&self) -> Phase {
        Phase::of(self.phase.load(Ordering::Acquire))
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.phase() == Phase::Lost
    }

    /// Moves on to `phase`; never back. The phase before, if this call did it.
    pub(crate) fn advance(&self, phase: Phase) -> Option<Phase> {
        let before = self.phase.fetch_max(phase as u8, Ordering::SeqCst);
        (before < phase as u8).then(|| Phase::of(before))
    }

    /// It is to drain, and there are too many for a successor now. Whether this is the first time.
    pub(crate) fn put_draining_off(&self) -> bool {
        !self.is_to_drain.swap(true, Ordering::SeqCst)
    }

    pub(crate) fn is_to_drain(&self) -> bool {
        self.is_to_drain.load(Ordering::SeqCst)
    }

    /// Tells running handlers to stop.
    pub(crate) fn interrupt(&self) {
        self.interrupt.cancel();
        self.tell(None);
    }

    pub(crate) fn interrupted(&self) -> &CancellationToken {
        &self.interrupt
    }

    /// Drops the futures of running handlers at their next await.
    pub(crate) fn evict(&self) {
        self.interrupt.cancel();
        self.eviction.cancel();
        self.tell(None);
    }

    pub(crate) fn evicted(&self) -> &CancellationToken {
        &self.eviction
    }

    pub(crate) fn claim_opened(&self) {
        self.open_claims.fetch_add(1, Ordering::SeqCst);
    }

    /// A call that claims: what it brings is waited for by whoever retires the epoch. `None` when it claims no more.
    pub(crate) fn claiming(self: &Arc<Self>) -> Option<Claiming> {
        self.claim_opened();
        let claiming = Claiming(Arc::clone(self));
        // Looked at after it was counted, as the one who drains counts after it said so.
        (self.phase.load(Ordering::SeqCst) == Phase::Live as u8).then_some(claiming)
    }

    /// Whether there are claims that are not settled to the end, or whose answer is under way.
    pub(crate) fn has_open_claims(&self) -> bool {
        self.open_claims.load(Ordering::SeqCst) > 0
    }

    pub(crate) fn claims_closed(&self, count: usize) {
        if count > 0 && self.open_claims.fetch_sub(count, Ordering::AcqRel) == count {
            self.closed.notify_one();
        }
    }

    /// Waits until every claim is settled to the end, or was dropped, and no call that claims is under way. For one waiter, after the
    /// epoch claims no more.
    pub(crate) async fn drained(&self) {
        while self.has_open_claims() {
            self.closed.notified().await;
        }
    }
}

/// A call that claims under an epoch, until what it brought was delivered.
pub(crate) struct Claiming(Arc<Epoch>);

impl Drop for Claiming {
    fn drop(&mut self) {
        self.0.claims_closed(1);
    }
}

/// What the jobs of one claim have in common; shared by their contexts.
#[derive(Debug)]
pub(crate) struct ClaimScope {
    pub(crate) epoch: Arc<Epoch>,
    pub(crate) reference: ClaimRef,
    pub(crate) queue: Arc<str>,
    pub(crate) priority: i16,
    /// From when on it counts how long its jobs may wait to be started.
    asked_at: Instant,
    /// When its jobs were handed out, by the store's clock.
    claimed_at: Option<Timestamp>,
    /// One of so many of its jobs is measured, and counts as so many.
    measured: u32,
    /// The store does not know the claim any more.
    is_forgotten: AtomicBool,
    switches: PerJob<JobSwitch>,
    reporters: PerJob<JobReporter>,
}

impl ClaimScope {
    pub(crate) fn new(
        epoch: Arc<Epoch>,
        reference: ClaimRef,
        queue: Arc<str>,
        priority: i16,
        asked_at: Instant,
    ) -> Self {
        Self {
            epoch,
            reference,
            queue,
            priority,
            asked_at,
            claimed_at: None,
            measured: 1,
            is_forgotten: AtomicBool::new(false),
            switches: PerJob::default(),
            reporters: PerJob::default(),
        }
    }

    /// Of so many jobs, handed out then.
    pub(crate) fn handed_out(self, claimed_at: Option<Timestamp>, jobs: usize) -> Self {
        // A power of two, because each job is asked whether it is one.
        let measured = 1 << (jobs / MEASURED).checked_ilog2().unwrap_or(0).min(16);
        Self { claimed_at, measured, ..self }
    }

    /// The job at this index begins. `None`: it is not measured, another one counts for it.
    pub(crate) fn begin(&self, index: u32, job: &ClaimedJob) -> Option<Box<Begun>> {
        (index & (self.measured - 1) == 0).then(|| self.begun(job))
    }

    /// Out of the way of the many that are not measured.
    #[cold]
    fn begun(&self, job: &ClaimedJob) -> Box<Begun> {
        let started = Instant::now();
        let waited = waited(job, self.claimed_at, self.asked_at, started);
        Box::new(Begun::new(job, waited, started, self.measured))
    }

    pub(crate) fn asked_at(&self) -> Instant {
        self.asked_at
    }

    /// Whether so much time is over since the claim was asked for.
    pub(crate) fn is_over(&self, time: Duration) -> bool {
        self.asked_at.elapsed() >= time
    }

    /// What becomes of a job of the claim that is not to be started any more.
    pub(crate) fn instead_of_start(&self, job: &ClaimedJob) -> Option<Disposition> {
        instead_of_start(self.is_cancel_asked(job.id), Expiry::of(job).as_ref(), |left| self.is_over(left))
    }

    /// What tells the handler of this job alone to stop.
    pub(crate) fn switch(&self, job: JobId) -> Arc<JobSwitch> {
        self.switches.get_or_make(job, || {
            let switch = JobSwitch::new(self.epoch.interrupted());
            if self.is_forgotten.load(Ordering::Acquire) {
                switch.token.cancel();
            }
            switch
        })
    }

    /// Tells the handlers of the claim to stop, also those that have not asked yet: its jobs run elsewhere.
    fn forget(&self) {
        self.is_forgotten.store(true, Ordering::Release);
        self.switches.all().iter().for_each(|switch| switch.token.cancel());
    }

    /// Whether the handler of this job should stop: the same as its switch says, without one being made.
    pub(crate) fn should_stop(&self, job: JobId) -> bool {
        let of_all = || self.is_forgotten.load(Ordering::Acquire) || self.epoch.interrupted().is_cancelled();
        self.known_switch(job).map_or_else(of_all, |switch| switch.token.is_cancelled())
    }

    /// The same, if there is one.
    pub(crate) fn known_switch(&self, job: JobId) -> Option<Arc<JobSwitch>> {
        self.switches.find(job)
    }

    /// Tells the handler of this job to stop because the job is to be cancelled.
    pub(crate) fn cancel(&self, job: JobId) {
        self.switch(job).cancel();
    }

    /// Whether the job is to be cancelled.
    pub(crate) fn is_cancel_asked(&self, job: JobId) -> bool {
        self.known_switch(job).is_some_and(|switch| switch.is_cancel_asked())
    }

    /// What the handler of this job says goes there.
    pub(crate) fn reporter(&self, job: JobId, position: i64, attempt: u16) -> Arc<JobReporter> {
        self.reporters.get_or_make(job, || JobReporter::new(self.reference, job, position, attempt))
    }

    /// The attempt is over. The reporter of the job, if its handler said anything.
    pub(crate) fn forget_reporter(&self, job: JobId) -> Option<Arc<JobReporter>> {
        self.reporters.remove(job)
    }

    /// Whether the job was begun, and goes back because nobody took it.
    pub(crate) fn goes_back(&self, job: JobId) -> bool {
        self.known_switch(job).is_some_and(|switch| switch.goes_back())
    }

    /// The attempt is over. What tells its handler to stop, if there is anything.
    pub(crate) fn forget_switch(&self, job: JobId) -> Option<Arc<JobSwitch>> {
        self.switches.remove(job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_only_move_on() {
        let epoch = Epoch::new(WorkerId(1), Arc::default());
        assert_eq!(epoch.advance(Phase::Lost), Some(Phase::Live));
        assert_eq!(epoch.advance(Phase::Draining), None);
        assert_eq!(epoch.advance(Phase::Lost), None);
        assert_eq!(epoch.phase(), Phase::Lost);
    }
}
