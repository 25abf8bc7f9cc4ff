//! Races: many processes at once lose nothing and do nothing twice.

use crate::{Fixture, steps::*};
use fastrand::Rng;
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};
use tokio::{sync::Mutex, task::JoinSet};
use windlass_core::{
    CancelReply, Claim, Completion, DeleteReply, Disposition, EditReply, Error, JobEdit, JobFilter, JobId,
    JobSet, JobState, Settled, Store, WorkerId,
};

/// How often each job completed, by everybody together.
#[derive(Default)]
struct Ledger {
    completed: Mutex<HashMap<JobId, usize>>,
    count: AtomicUsize,
}

impl Ledger {
    async fn note(&self, ids: impl IntoIterator<Item = JobId>) {
        let mut completed = self.completed.lock().await;
        for id in ids {
            *completed.entry(id).or_default() += 1;
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn done(&self, expected: usize, started: Instant) -> bool {
        let count = self.count.load(Ordering::Relaxed);
        assert!(started.elapsed() < DEADLINE, "{count} of {expected} jobs completed after {DEADLINE:?}");
        count >= expected
    }

    /// Each of the enqueued jobs completed exactly once, and nothing else did.
    async fn balances(&self, store: &Arc<dyn Store>, mut enqueued: Vec<JobId>) {
        let completed = self.completed.lock().await;
        let twice: Vec<_> = completed.iter().filter(|entry| *entry.1 > 1).collect();
        assert!(twice.is_empty(), "completed more than once: {twice:?}");
        let mut ids: Vec<_> = completed.keys().copied().collect();
        ids.sort_unstable();
        enqueued.sort_unstable();
        assert!(ids == enqueued, "{} enqueued, {} completed", enqueued.len(), ids.len());
        let stats = queue(store, QUEUE).await;
        assert_eq!((stats.available, stats.running), (0, 0));
        let off = stats.completed.abs_diff(ids.len() as u64);
        let is_estimate = stats.estimates.contains(&JobState::Completed);
        assert!(off == 0 || (is_estimate && off < stats.completed / 10), "{stats:?}");
    }
}

/// Enqueues so many jobs in batches of random size, and returns their ids.
fn enqueuers(
    stores: Vec<Arc<dyn Store>>,
    each: usize,
    batch: usize,
    random: &mut Rng,
) -> JoinSet<Vec<JobId>> {
    let mut tasks = JoinSet::new();
    for store in stores {
        let mut random = random.fork();
        tasks.spawn(async move {
            let mut ids = Vec::with_capacity(each);
            while ids.len() < each {
                let size = random.usize(1..=batch).min(each - ids.len());
                ids.extend(enqueue_jobs(&store, size).await);
            }
            ids
        });
    }
    tasks
}

/// Claims batches of random size and completes them, but for some jobs that it returns.
async fn complete_or_return(worker: &TestWorker, ledger: &Ledger, random: &mut Rng) {
    let claims = worker.claim(random.u32(1..=300)).await;
    for claim in &claims {
        let (returned, done): (Vec<_>, Vec<_>) =
            held(std::slice::from_ref(claim)).into_iter().partition(|_| random.u8(..) < 25);
        let done: Vec<_> = done.iter().map(|held| held.job.id).collect();
        let ranges = JobSet::Ranges(done.iter().map(|id| (id.0, id.0)).collect());
        let completion = Completion { claim: claim.reference, jobs: ranges, count: done.len() as u32 };
        let completions = if done.is_empty() { vec![] } else { vec![completion] };
        let exceptions = returned.iter().map(|held| held.exception(Disposition::Return)).collect();
        let reply = worker.settle(completions, exceptions).await;
        let mut all = reply.completions.iter().chain(&reply.exceptions);
        assert!(all.all(|&settled| settled == Settled::Accepted), "a live worker's settlement was refused");
        ledger.note(done).await;
    }
    if claims.is_empty() {
        tokio::task::yield_now().await;
    }
}

/// Claimers and enqueuers race over 20,000 jobs in random batches, some of which come back: every
/// job completes exactly once, none is lost.
pub async fn nothing_is_lost_or_done_twice(fixture: &dyn Fixture) {
    let (enqueuer_count, each, claimer_count, mut random) = (4, 5_000, 4, random());
    let ledger = Arc::new(Ledger::default());
    let (mut claimers, mut stores, started) = (JoinSet::new(), Vec::new(), Instant::now());
    for _ in 0..claimer_count {
        let (worker, ledger) = (worker_on(&fixture.open().await).await, Arc::clone(&ledger));
        let mut random = random.fork();
        claimers.spawn(async move {
            while !ledger.done(enqueuer_count * each, started) {
                complete_or_return(&worker, &ledger, &mut random).await;
            }
        });
    }
    for _ in 0..enqueuer_count {
        stores.push(fixture.open().await);
    }
    let enqueued = enqueuers(stores, each, 200, &mut random).join_all().await.concat();
    claimers.join_all().await;
    ledger.balances(&fixture.open().await, enqueued).await;
}

/// Ten thousand tiny transactions race with claimers: every job is handed out once.
pub async fn ten_thousand_tiny_enqueues(fixture: &dyn Fixture) {
    let (tasks, each) = (40, 250);
    let ledger = Arc::new(Ledger::default());
    let (mut claimers, started) = (JoinSet::new(), Instant::now());
    for _ in 0..2 {
        let (worker, ledger) = (worker_on(&fixture.open().await).await, Arc::clone(&ledger));
        claimers.spawn(async move {
            while !ledger.done(tasks * each, started) {
                let claims = worker.claim(500).await;
                worker.complete_claims(&claims).await;
                ledger.note(ids(&claims)).await;
            }
        });
    }
    let (first, second) = (fixture.open().await, fixture.open().await);
    let stores = (0..tasks).map(|n| Arc::clone(if n % 2 == 0 { &first } else { &second })).collect();
    let enqueued = enqueuers(stores, each, 1, &mut random()).join_all().await.concat();
    claimers.join_all().await;
    ledger.balances(&first, enqueued).await;
}

/// Rescues race with settlements: a job completes once, by whoever still held it.
pub async fn rescue_races_with_settle(fixture: &dyn Fixture) {
    let ledger = Arc::new(Ledger::default());
    let store = fixture.open().await;
    let (count, started, mut random) = (2_000, Instant::now(), random());
    let enqueued = enqueue_jobs(&store, count).await;
    let mut mortals = JoinSet::new();
    for _ in 0..4 {
        let (store, ledger) = (fixture.open().await, Arc::clone(&ledger));
        let mut random = random.fork();
        mortals.spawn(async move {
            let rescuer = worker_on(&store).await.id;
            let mut mortal = worker(&store, &[QUEUE], &[], TINY_LEASE).await;
            while !ledger.done(count, started) {
                let worked = work_mortally(&mortal, rescuer, &ledger, &mut random).await;
                if worked.is_err_and(|error| error.is_lease_lost()) {
                    mortal = worker(&store, &[QUEUE], &[], TINY_LEASE).await;
                }
            }
        });
    }
    mortals.join_all().await;
    ledger.balances(&store, enqueued).await;
}

/// One round of a worker whose lease others take at any moment, and who takes others'.
async fn work_mortally(
    mortal: &TestWorker,
    rescuer: WorkerId,
    ledger: &Ledger,
    random: &mut Rng,
) -> Result<(), Error> {
    let claims = mortal.try_claim(random.u32(1..=100)).await?;
    if random.u8(..) < 50 {
        mortal.store.rescue(rescuer).await?;
    }
    for claim in &claims {
        settle_mortally(mortal, claim, ledger, random).await?;
    }
    Ok(())
}

async fn settle_mortally(
    mortal: &TestWorker,
    claim: &Claim,
    ledger: &Ledger,
    random: &mut Rng,
) -> Result<(), Error> {
    let jobs = held(std::slice::from_ref(claim));
    let (now, later) = jobs.split_at(random.usize(..=jobs.len()));
    for part in [now, later] {
        let reply = mortal.try_settle(part.iter().map(Held::completion).collect(), vec![]).await?;
        assert!(reply.completions.iter().all(|&settled| settled == Settled::Accepted), "{reply:?}");
        ledger.note(part.iter().map(|held| held.job.id)).await;
    }
    Ok(())
}

/// Cancelling races with claiming: a job is cancelled or handed out, never both, and the reply is true.
pub async fn cancel_races_with_claim(fixture: &dyn Fixture) {
    let (store, canceller) = (fixture.open().await, fixture.open().await);
    let enqueued = enqueue_jobs(&store, 1_000).await;
    let targets = enqueued.clone();
    let cancelling = tokio::spawn(async move {
        let mut cancelled = Vec::new();
        for chunk in targets.rchunks(10) {
            let replies = canceller.cancel(chunk).await.expect("cancel");
            let hits = chunk.iter().zip(replies);
            cancelled.extend(hits.filter(|hit| hit.1 == CancelReply::Cancelled).map(|hit| *hit.0));
        }
        cancelled
    });
    let worker = worker_on(&store).await;
    let mut all = worker.drain(10).await;
    let mut cancelled = cancelling.await.expect("canceller");
    all.extend(worker.drain(10).await);
    all.extend(&cancelled);
    all.sort_unstable();
    assert!(all == enqueued, "{} of {} jobs have exactly one fate", all.len(), enqueued.len());
    let filter =
        JobFilter { state: Some(JobState::Cancelled), limit: JobFilter::MAX_LIMIT, ..JobFilter::default() };
    let mut listed: Vec<_> = store.jobs(&filter).await.expect("list").iter().map(|job| job.id).collect();
    listed.sort_unstable();
    cancelled.sort_unstable();
    assert_eq!(listed, cancelled);
}

/// Editing and deleting race with claiming: each job is handed out once or deleted, and as the replies say.
pub async fn edit_races_with_claim(fixture: &dyn Fixture) {
    let (store, editor, deleter) = (fixture.open().await, fixture.open().await, fixture.open().await);
    let enqueued = enqueue_jobs(&store, 1_000).await;
    let (targets, doomed) = (enqueued.clone(), enqueued.clone());
    let editing = tokio::spawn(async move {
        let mut edited = HashMap::new();
        for (n, chunk) in targets.rchunks(10).enumerate() {
            let edits = [
                JobEdit::new().with_args(args(5_000 + n)),
                JobEdit::new().with_args(args(5_000 + n)).with_priority(1),
                JobEdit::new().with_args(args(5_000 + n)).with_delay(std::time::Duration::from_millis(1)),
            ];
            for edit in &edits[..=n % 3] {
                let replies = editor.edit(chunk, edit).await.expect("edit");
                let hits = chunk.iter().zip(replies).filter(|hit| hit.1 == EditReply::Edited);
                edited.extend(hits.map(|hit| (*hit.0, args(5_000 + n))));
            }
        }
        edited
    });
    let deleting = tokio::spawn(async move {
        let mut deleted = Vec::new();
        for chunk in doomed.chunks(7).step_by(5) {
            let replies = deleter.delete(chunk).await.expect("delete");
            let hits = chunk.iter().zip(replies).filter(|hit| hit.1 == DeleteReply::Deleted);
            deleted.extend(hits.map(|hit| *hit.0));
        }
        deleted
    });
    let worker = worker_on(&store).await;
    let mut taken = Vec::new();
    loop {
        let over = editing.is_finished() && deleting.is_finished();
        store.promote(1_000).await.expect("promote");
        let claims = worker.claim(10).await;
        worker.complete_claims(&claims).await;
        taken.extend(held(&claims));
        let stats = queue(&store, QUEUE).await;
        if over && claims.is_empty() && stats.available + stats.scheduled == 0 {
            break;
        }
    }
    let (edited, mut all) = (editing.await.expect("editor"), deleting.await.expect("deleter"));
    all.extend(taken.iter().map(|held| held.job.id));
    all.sort_unstable();
    assert!(all == enqueued, "{} of {} jobs have exactly one fate", all.len(), enqueued.len());
    for held in taken {
        let nth = enqueued.iter().position(|id| *id == held.job.id).expect("one of them");
        let expected = edited.get(&held.job.id).cloned().unwrap_or_else(|| args(nth));
        assert_eq!(&*held.job.args, expected.as_str().as_bytes(), "job {nth}");
    }
}

/// Promotions race: each due job comes once.
pub async fn promotions_race(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let soon = std::time::Duration::from_millis(5);
    let batch: Vec<_> = jobs(500).into_iter().map(|job| job.with_delay(soon)).collect();
    let mut enqueued = store.enqueue(&batch).await.expect("enqueue");
    let ledger = Arc::new(Ledger::default());
    let (mut tasks, started) = (JoinSet::new(), Instant::now());
    for _ in 0..4 {
        let (worker, ledger) = (worker_on(&fixture.open().await).await, Arc::clone(&ledger));
        tasks.spawn(async move {
            while !ledger.done(500, started) {
                worker.store.promote(50).await.expect("promote");
                ledger.note(worker.drain(50).await).await;
            }
        });
    }
    tasks.join_all().await;
    enqueued.sort_unstable();
    ledger.balances(&store, enqueued).await;
}
