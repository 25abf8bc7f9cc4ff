use crate::{
    core::Core,
    epoch::Epoch,
    estimate::{JobSize, Prefetch, Rate, RoundTrip},
    executor::activate,
    idle::Idle,
    outage::Outage,
    overtaking,
    queue_runner::QueueRunner,
    queue_state::HandBack,
    sharer,
    sync::atomic::Ordering,
};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;
use tracing::{error, info};
use windlass_core::{Claim, ClaimRequest, Claimed, Error, ErrorKind, QueueDemand};

/// Rates over shorter times are noise.
const SHORTEST_SAMPLE: Duration = Duration::from_micros(500);
/// A queue that finishes more jobs per second than this is busy: a claim for each single job would cost more than
/// a millisecond of waiting does.
const BUSY: f64 = 4_000.0;
/// How long a worker without a free slot stays announced as idle. Most jobs are over by then.
const FULL_FOR_LONG: Duration = Duration::from_millis(2);
/// How long a worker waits for old registrations to end, of which it has many, before there is one more: the store took them away one after the other.
const CROWDED: Duration = Duration::from_secs(1);
/// How often to look whether ready jobs wait for executors whose handlers block their threads.
const UNSTICK_EVERY: Duration = Duration::from_millis(2);

/// The one task of a worker that claims: it keeps every queue runner supplied with jobs.
pub(crate) struct Claimer {
    core: Arc<Core>,
    gauges: Vec<Gauge>,
    sampled_at: Instant,
    trip: RoundTrip,
    idle: Idle,
    /// The last claim found other workers claiming from the same lanes: there may be work although it brought none.
    contended: bool,
    /// And somebody has them for longer than a claim takes.
    blocked: bool,
    outage: Outage,
}

/// What the claimer knows of one queue.
#[derive(Clone, Copy, Default)]
struct Gauge {
    rate: Rate,
    size: JobSize,
    /// Its jobs have keys.
    keyed: bool,
    finished: u64,
    /// The last claim brought less than was asked for.
    quiet: bool,
    /// How many jobs to ask for.
    want: usize,
}

impl Claimer {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        let config = &core.config;
        let mut wakeup = core.store.wakeup();
        wakeup.on_request(core.on_request());
        wakeup.on_schedules(core.on_schedules());
        Self {
            gauges: vec![Gauge::default(); core.runners.len()],
            sampled_at: Instant::now(),
            trip: RoundTrip::default(),
            idle: Idle::new(wakeup, config.poll_interval, config.random),
            contended: false,
            blocked: false,
            outage: Outage::new("claim", config.random),
            core,
        }
    }

    /// Claims until the worker stops. It waits for a claim that is under way then, so that its jobs can be
    /// handed back.
    pub(crate) async fn run(mut self) {
        let core = Arc::clone(&self.core);
        while !core.switches.stop.is_cancelled() {
            let Some(epoch) = self.epoch().await else { continue };
            self.measure_demand();
            if self.gauges.iter().any(|gauge| gauge.want > 0 && !gauge.quiet) {
                self.claim(&epoch).await;
            } else if self.gauges.iter().any(|gauge| gauge.want > 0) {
                if self.watch() {
                    continue;
                }
                if std::mem::take(&mut self.contended) {
                    self.idle.yield_to_others(self.blocked, interrupted(&core)).await;
                } else {
                    if self.idle.was_hinted() {
                        core.put_off.notify_one();
                    }
                    self.idle.pause(self.is_busy(), interrupted(&core)).await;
                }
                self.measure_demand();
                if !core.switches.stop.is_cancelled() && epoch_is_current(&core, &epoch) {
                    self.claim(&epoch).await;
                }
            } else if !self.watch() {
                self.wait_for_demand().await;
            }
        }
        self.idle.disarm();
    }

    /// The epoch to claim under; registers anew when there is none.
    async fn epoch(&mut self) -> Option<Arc<Epoch>> {
        let core = &self.core;
        if let Some(epoch) = core.live_epoch() {
            if !epoch.is_to_drain() || !core.may_register() {
                return Some(epoch);
            }
            core.drain(&epoch);
        }
        if !core.may_register() {
            tokio::select! {
                biased;
                () = core.switches.stop.cancelled() => return None,
                () = tokio::time::sleep(CROWDED) => {}
            }
        }
        match core.register().await {
            // Only a claim ends the outage: where each one fails, each is followed by a registration.
            Ok(epoch) => Some(epoch),
            Err(error) => {
                self.pause_after(&error).await;
                None
            }
        }
    }

    /// Waits until there is demand again. When that takes a while it disarms: enqueues need not announce themselves.
    async fn wait_for_demand(&mut self) {
        let core = Arc::clone(&self.core);
        if tokio::time::timeout(FULL_FOR_LONG, interrupted(&core)).await.is_err() {
            self.idle.disarm();
            interrupted(&core).await;
        }
    }

    fn is_busy(&self) -> bool {
        self.gauges.iter().any(|gauge| gauge.rate.per_second() > BUSY)
    }

    /// Measures what finished and decides how much to ask for.
    fn measure_demand(&mut self) {
        let core = &self.core;
        let elapsed = self.sampled_at.elapsed();
        let sample = elapsed >= SHORTEST_SAMPLE;
        if sample {
            self.sampled_at = Instant::now();
        }
        let full = is_full(core) || core.rests.load(Ordering::SeqCst);
        for (gauge, runner) in self.gauges.iter_mut().zip(&core.runners) {
            if sample {
                let finished = runner.snapshot().counters.finished;
                gauge.rate.observe(finished - gauge.finished, elapsed);
                gauge.finished = finished;
            }
            let pace = Prefetch::of(gauge.rate, self.trip, gauge.size, gauge.keyed);
            let want = runner.want(pace, gauge.rate, self.trip);
            gauge.want = if full { 0 } else { want };
            // Jobs may have come while none was asked for.
            gauge.quiet &= want > 0;
        }
    }

    /// Asks the queue runners without demand to wake the claimer when they have some. Whether one has already.
    fn watch(&self) -> bool {
        let full = self.core.full.load(Ordering::Relaxed) || self.core.rests.load(Ordering::SeqCst);
        let idle = self.gauges.iter().zip(&self.core.runners).filter(|(gauge, _)| gauge.want == 0);
        idle.fold(false, |any, (_, runner)| any | (!full && runner.watch()))
    }

    async fn claim(&mut self, epoch: &Arc<Epoch>) {
        let core = Arc::clone(&self.core);
        let wanted = self.gauges.iter().zip(&core.runners).filter(|(gauge, _)| gauge.want > 0);
        let demand = |(gauge, runner): (&Gauge, &Arc<QueueRunner>)| QueueDemand {
            queue: Arc::clone(runner.queue()),
            limit: gauge.want as u32,
            max_bytes: QueueDemand::DEFAULT_MAX_BYTES,
        };
        let queues: Vec<_> = wanted.map(demand).collect();
        if queues.is_empty() {
            return;
        }
        let Some(claiming) = epoch.claiming() else { return };
        let request = ClaimRequest { worker: epoch.worker(), queues };
        let asked_at = Instant::now();
        let reply = tokio::select! {
            biased;
            reply = core.store.claim(&request) => reply,
            () = core.switches.force.cancelled() => return,
        };
        match reply {
            Ok(Claimed { claims, contended, blocked, limited, next_due }) => {
                self.outage.over();
                sharer::ask_for(&core, &limited);
                next_due.inspect(|due| core.is_due_in(*due)); // a key's rate allows more then
                (self.contended, self.blocked) = (contended, blocked);
                if !claims.is_empty() {
                    self.trip.observe(asked_at.elapsed());
                    self.idle.reset(self.is_busy());
                }
                self.deliver(epoch, claims, asked_at);
            }
            Err(error) if error.is_lease_lost() => core.lose(epoch),
            Err(error) => {
                if may_have_claimed(&error) {
                    core.drain(epoch);
                }
                drop(claiming); // nothing comes of it
                self.pause_after(&error).await;
            }
        }
    }

    fn deliver(&mut self, epoch: &Arc<Epoch>, claims: Vec<Claim>, asked_at: Instant) {
        let core = Arc::clone(&self.core);
        let mut brought = vec![0; self.gauges.len()];
        for claim in claims {
            let Some(at) = core.runners.iter().position(|runner| *runner.queue() == claim.queue) else {
                error!(queue = %claim.queue, "the store handed out jobs of a queue that was not asked for");
                core.drain(epoch);
                continue;
            };
            brought[at] += claim.jobs.len();
            let bytes = claim.jobs.iter().map(|job| job.args.len()).sum();
            self.gauges[at].size.observe(claim.jobs.len(), bytes);
            self.gauges[at].keyed = claim.jobs.first().is_some_and(overtaking::has_key);
            let runner = &core.runners[at];
            activate(&core, runner, runner.deliver(epoch, claim, asked_at, HandBack::Return));
            if runner.is_limited() {
                core.signals.wake_sharer();
            }
        }
        core.signals.note_claimed();
        for (gauge, brought) in self.gauges.iter_mut().zip(brought) {
            if gauge.want > 0 {
                // More of what just came may be there: the store stops early where jobs are large.
                gauge.quiet = brought < gauge.want && !(self.contended && brought > 0);
            }
        }
        if core.switches.stop.is_cancelled() {
            core.signals.wake_settler();
        }
    }

    /// Pauses after a call that failed, longer each time.
    async fn pause_after(&mut self, error: &Error) {
        let pause = self.outage.failed(error);
        tokio::select! {
            biased;
            () = tokio::time::sleep(pause) => {}
            () = self.core.switches.stop.cancelled() => {}
        }
    }
}

/// Whether so many results wait for the store that no more jobs should be claimed. The settler wakes the
/// claimer when it finds the mark set, so the mark comes first and the look that counts after it.
fn is_full(core: &Core) -> bool {
    let over = || core.unsettled() >= core.config.max_buffered;
    let was_full = core.full.load(Ordering::SeqCst);
    if over() {
        core.full.store(true, Ordering::SeqCst);
    }
    let full = core.full.load(Ordering::SeqCst) && over();
    core.full.store(full, Ordering::SeqCst);
    if full && !was_full {
        // At full speed a slow fsync of 0.2 s is enough; when the store fails, the settler warns.
        info!(unsettled = core.unsettled(), "too many finished jobs wait for the store; claiming stops");
    }
    full
}

/// Whether the store may have handed out jobs although the claim failed.
pub(crate) fn may_have_claimed(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Ambiguous | ErrorKind::Internal)
        && !cfg!(feature = "bug_forget_ambiguous_claim")
}

fn epoch_is_current(core: &Core, epoch: &Arc<Epoch>) -> bool {
    core.live_epoch().is_some_and(|live| Arc::ptr_eq(&live, epoch))
}

/// Waits until there is demand, the epoch changes or the worker stops. Meanwhile it starts more executors where
/// handlers block their threads.
async fn interrupted(core: &Arc<Core>) {
    tokio::select! {
        biased;
        () = core.signals.claimer_woken() => {}
        () = core.switches.stop.cancelled() => {}
        () = unstick(core) => {}
    }
}

/// Sets more executors to work while handlers block their threads. It never ends: no queue runner gets new jobs
/// while the claimer waits.
async fn unstick(core: &Arc<Core>) {
    while core.runners.iter().any(|runner| runner.may_be_stuck()) {
        tokio::time::sleep(UNSTICK_EVERY).await;
        for runner in &core.runners {
            for executor in runner.unstick() {
                activate(core, runner, Some(executor));
            }
        }
    }
    std::future::pending::<()>().await;
}
