//! SQLite: its rules run in transactions of one writer at a time, so whole operations are permuted. Each
//! session is a store handle of its own, as another process would have.

use super::{
    book::{MAX_CRASHES, Record},
    call::{Call, Reply, edit, jobs, unique_jobs, worker},
    limits, order,
    report::{Outcome, Plan},
    round::{Desk, Round, first_jobs},
    scenario::Scenario,
    schedule,
};
use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};
use windlass_core::{
    ClaimRequest, Error, ErrorKind, JobId, JobStore, QueueDemand, ScheduleStore, Settings, WorkerId,
    WorkerSpec,
};
use windlass_sqlite::{Clock, SqliteOptions, SqliteStore};

/// What runs the test of every scenario.
const REPEAT: &str = "cargo test -p windlass-chaos --test local permuter_sqlite";
/// After how many failing orders a scenario is given up.
const MOST_FAILURES: usize = 5;
/// How long a lease is on the store's clock, and how far that clock jumps to end one.
const LEASE_SECONDS: i64 = 3_600;
/// The policy of the orders.
const POLICY: Settings = Settings::DEFAULT.with_max_crashes(MAX_CRASHES);
/// How many jobs a promotion takes.
const PROMOTE: u32 = 1_000;

/// Runs the orders of one scenario that the plan asks for, on one file in this folder.
///
/// # Errors
/// When the file cannot be opened; broken rules are in the outcome.
pub async fn run(folder: &Path, scenario: &Scenario, plan: &Plan) -> anyhow::Result<Outcome> {
    let started = std::time::Instant::now();
    let steps = scenario.operations();
    let total = order::count(&steps);
    let numbers = plan.numbers(total)?;
    let url = format!("sqlite:{}?synchronous=normal", folder.join(format!("{}.db", scenario.name)).display());
    let ahead = Arc::new(AtomicI64::new(0));
    let open = || SeamDesk::open(&url, &ahead);
    let mut desk = open()?;
    desk.store.configure(&POLICY).await?;
    let mut sessions = steps.iter().map(|_| open()).collect::<anyhow::Result<Vec<_>>>()?;
    let rescuer = desk.store.register(&rescuer()).await?.worker;
    sessions.iter_mut().for_each(|session| session.rescuer = Some(rescuer));
    desk.rescuer = Some(rescuer);
    let mut failures = Vec::new();
    for &number in &numbers {
        let queue = format!("q{number}");
        let mut round = Round::begin(&mut desk, scenario, &queue).await?;
        play(&mut sessions, scenario, &order::nth(&steps, number), &mut round).await?;
        let (wrong, trace) = round.finish(&mut desk).await?;
        if !wrong.is_empty() {
            failures.push((number, wrong, trace));
        }
        if failures.len() >= MOST_FAILURES {
            break;
        }
    }
    Ok(Outcome::new(scenario.name, total, numbers.len(), started.elapsed(), failures, REPEAT))
}

async fn play(
    sessions: &mut [SeamDesk],
    scenario: &Scenario,
    order: &[usize],
    round: &mut Round,
) -> anyhow::Result<()> {
    let firsts = first_jobs(scenario);
    let mut begun = vec![0; sessions.len()];
    for &session in order {
        let nth = begun[session];
        begun[session] += 1;
        let act = scenario.sessions[session][nth].act;
        match round.names.call(act, firsts[session][nth]) {
            Some(call) => {
                round.perform(&mut sessions[session], &call).await?;
            }
            None => round.note(&format!("session {session}: nothing to do for {act:?}")),
        }
    }
    Ok(())
}

/// A caller through the seam.
struct SeamDesk {
    store: SqliteStore,
    /// How many seconds the store's clock is ahead of the machine's.
    ahead: Arc<AtomicI64>,
    /// The workers whose lease must go on when the clock jumps: of this order, known to the first desk.
    live: Vec<WorkerId>,
    /// Who rescues: a worker that no jump of the clock makes look silent.
    rescuer: Option<WorkerId>,
}

impl SeamDesk {
    fn open(url: &str, ahead: &Arc<AtomicI64>) -> anyhow::Result<Self> {
        let clock = Arc::clone(ahead);
        let now = move || {
            let jump = SignedDuration::from_secs(clock.load(Ordering::SeqCst));
            Timestamp::now().checked_add(jump).unwrap_or(Timestamp::MAX)
        };
        let options = SqliteOptions { clock: Clock::new(now), ..SqliteOptions::default() };
        Ok(Self {
            store: SqliteStore::open(url, options)?,
            ahead: Arc::clone(ahead),
            live: Vec::new(),
            rescuer: None,
        })
    }

    async fn ask(&mut self, queue: &str, call: &Call) -> Result<Reply, Error> {
        let store = &self.store;
        Ok(match call {
            Call::Enqueue { count, kind, .. } => {
                Reply::Enqueued(store.enqueue(&jobs(queue, *count, kind)?).await?)
            }
            Call::EnqueueOnce { count, kind, .. } => {
                Reply::Enqueued(store.enqueue_once(queue, &jobs(queue, *count, kind)?).await?.ids)
            }
            Call::Keyed { keys, .. } => {
                Reply::Enqueued(store.enqueue(&limits::keyed_jobs(queue, keys)?).await?)
            }
            Call::LimitKeys(rule) => {
                store.limit_keys(queue, &limits::of_keys(*rule)).await?;
                Reply::Done
            }
            Call::LimitQueue(most) => {
                store.limit(queue, &limits::of_queue(*most)).await?;
                Reply::Done
            }
            Call::Share(request) => Reply::Shared(store.share(request).await?[0]),
            Call::Declare => {
                store.put_schedules(&[schedule::declared(queue)?], None).await?;
                Reply::Done
            }
            Call::Pause => {
                store.pause_schedules(&[queue.to_owned()], true).await?;
                Reply::Done
            }
            Call::Look(_) => {
                Reply::Seen(Box::new(store.schedules(&schedule::filter(queue)).await?.remove(0)))
            }
            Call::Fire { step, .. } => {
                Reply::Fired(store.advance_schedules(std::slice::from_ref(step)).await?.remove(0))
            }
            Call::Claim { worker, limit } => {
                let queues = vec![QueueDemand::new(queue, *limit)];
                Reply::Claimed(store.claim(&ClaimRequest { worker: *worker, queues }).await?.claims)
            }
            Call::Settle(request) => Reply::Settled(store.settle(request).await?),
            Call::CompleteIn { .. } => Reply::Tolerated("SQLite has no transactions of users".into()),
            Call::Heartbeat(worker) => {
                store.heartbeat(*worker).await?;
                Reply::Done
            }
            Call::Suspect(worker, job) => {
                store.suspect(*worker, Some(*job)).await?;
                Reply::Done
            }
            Call::Rescue(_) => {
                let report = store.rescue(self.rescuer.unwrap_or(WorkerId(0))).await?;
                Reply::Ended(report.workers)
            }
            Call::Deregister(worker) => {
                // The seam does not say whether there was a worker to end: a lost lease tells.
                let live = store.heartbeat(*worker).await.is_ok();
                store.deregister(*worker).await?;
                Reply::Ended(live.then_some(*worker).into_iter().collect())
            }
            Call::Promote => Reply::Promoted(store.promote(PROMOTE).await?.count),
            Call::Cancel(id) => Reply::Cancel(store.cancel(&[*id]).await?[0]),
            Call::Retry(id) => Reply::Retry(store.retry(&[*id]).await?[0]),
            Call::Unique { keys, way, .. } => {
                Reply::Unique(store.enqueue_unique(&unique_jobs(queue, keys, *way)?).await?)
            }
            Call::Edit(id, change) => Reply::Edit(store.edit(&[*id], &edit(*change)?).await?[0]),
            Call::Delete(id) => Reply::Delete(store.delete(&[*id]).await?[0]),
            Call::Report(request) => Reply::Reported(store.report(request).await?),
            Call::Maintain | Call::Close => {
                store.configure(&POLICY.with_retention(Duration::ZERO)).await?;
                Reply::Housekept(store.maintain().await?)
            }
            Call::Expire(worker) => {
                self.ahead.fetch_add(2 * LEASE_SECONDS, Ordering::SeqCst);
                for &other in self.live.iter().filter(|other| *other != worker) {
                    // Those that have ended need none.
                    let _ = store.heartbeat(other).await;
                }
                self.live.retain(|other| other != worker);
                Reply::Done
            }
        })
    }
}

fn rescuer() -> WorkerSpec {
    let decades = Duration::from_secs(90 * 365 * 86_400);
    WorkerSpec {
        name: "rescuer".into(),
        queues: Vec::new(),
        kinds: Vec::new(),
        lease: decades,
        program: Default::default(),
    }
}

#[async_trait]
impl Desk for SeamDesk {
    async fn register(&mut self, queue: &str, kinds: &[&str]) -> anyhow::Result<WorkerId> {
        let spec = worker(queue, kinds, Duration::from_secs(LEASE_SECONDS.unsigned_abs()));
        let worker = self.store.register(&spec).await?.worker;
        self.live.push(worker);
        Ok(worker)
    }

    async fn perform(&mut self, queue: &str, call: &Call) -> anyhow::Result<Reply> {
        Ok(self.ask(queue, call).await.unwrap_or_else(|error| match error.kind() {
            ErrorKind::LeaseLost => Reply::LeaseLost,
            ErrorKind::UniqueConflict => Reply::KeyTaken,
            _ => Reply::Failed(error.to_string()),
        }))
    }

    async fn records(&mut self, ids: &[JobId]) -> anyhow::Result<Vec<Record>> {
        let mut records = Vec::new();
        for &id in ids {
            if let Some(job) = self.store.job(id).await? {
                let checkpoint = job.report.as_ref().and_then(|report| report.checkpoint.clone());
                records.push(Record { id, state: job.state, crashes: job.crash_count, checkpoint });
            }
        }
        Ok(records)
    }

    /// The counts of the queue must be those of its jobs: two records of one job would count twice.
    async fn inspect(&mut self, queue: &str, _: &[JobId]) -> anyhow::Result<Vec<String>> {
        let stats = self.store.queues().await?.into_iter().find(|stats| stats.name == queue);
        let left = stats.as_ref().map_or(0, |s| s.available + s.running + s.scheduled + s.retryable);
        Ok((left > 0).then(|| format!("jobs are left in the end: {stats:?}")).into_iter().collect())
    }
}
