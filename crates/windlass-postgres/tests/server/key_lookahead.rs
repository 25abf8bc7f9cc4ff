//! Claims of keyed queues that look ahead of a backlog of few keys for jobs of others.

use crate::{
    cluster::Fixture,
    key_edits::IN_TWO_PLACES,
    keys::{SMALL, claim_within, complete, of, work_all},
    session::Session,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use tokio_postgres::Client;
use windlass_conformance::steps::{Held, QUEUE, TestWorker, maintain_with, worker_on};
use windlass_core::{Args, Disposition, JobId, KeyLimit, KeyLimitsChange, NewJob, QueueDemand, Store};

/// A keyed queue of which claims read so many jobs at once.
pub(crate) async fn keyed(page: u32, limit: KeyLimit) -> (Fixture, Arc<dyn Store>) {
    let fixture = Fixture::with(&format!("&options=-c%20windlass.keyed_page%3D{page}")).await;
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    store.limit_keys(QUEUE, &KeyLimitsChange::Default(limit)).await.expect("limit keys");
    (fixture, store)
}

/// One call. Whether there is more comes with it.
pub(crate) async fn claim_once(worker: &TestWorker, most: u32) -> (Vec<Held>, bool) {
    claim_within(worker, QueueDemand::new(QUEUE, most)).await
}

fn ids(held: &[Held]) -> BTreeSet<JobId> {
    held.iter().map(|held| held.job.id).collect()
}

/// Ten jobs behind sixty thousand of another key come with the second claim, which finds them; with the backlog read in order they came with the
/// sixteenth. They come once, and so does what stood before and behind them.
#[tokio::test]
async fn quiet_keys_come_before_a_backlog() {
    let (_fixture, store) = keyed(4_000, KeyLimit::default()).await;
    for _ in 0..6 {
        store.enqueue(&of("loud", 10_000)).await.unwrap();
    }
    let quiet: BTreeSet<_> = store.enqueue(&of("quiet", 10)).await.unwrap().into_iter().collect();
    store.enqueue(&of("loud", 10)).await.unwrap();
    let worker = worker_on(&store).await;
    let mut seen = BTreeSet::new();
    for _ in 0..3 {
        let (held, more) = claim_once(&worker, 100).await;
        assert!(more);
        seen.extend(ids(&held));
        complete(&worker, &held).await;
    }
    assert!(quiet.is_subset(&seen), "{} of them came", quiet.intersection(&seen).count());
    // Another key that comes now is found by the next claim, wherever the lane is read.
    let late: BTreeSet<_> = store.enqueue(&of("late", 3)).await.unwrap().into_iter().collect();
    let (held, _) = claim_once(&worker, 100).await;
    assert!(late.is_subset(&ids(&held)));
}

/// What has limits keeps to them when it is found ahead.
#[tokio::test]
async fn limits_hold_ahead() {
    let (_fixture, store) = keyed(40, KeyLimit::default().with_concurrency(2)).await;
    store.enqueue(&of("loud", 400)).await.unwrap();
    let quiet = store.enqueue(&of("quiet", 5)).await.unwrap();
    let worker = worker_on(&store).await;
    let mut all = Vec::new();
    for _ in 0..60 {
        all.extend(claim_once(&worker, 20).await.0);
    }
    assert_eq!(all.len(), 4, "two of each");
    assert!(quiet[..2].iter().all(|id| all.iter().any(|held| held.job.id == *id)), "the first two");
    complete(&worker, &all).await;
}

/// What is served behind a backlog keeps its order where it matters: the jobs of a serial key come by their ids.
#[tokio::test]
async fn nothing_is_looked_for_where_order_matters() {
    let (fixture, store) = keyed(40, KeyLimit::default()).await;
    store
        .limit_keys(QUEUE, &KeyLimitsChange::Named(vec![("serial".into(), Some(KeyLimit::serial()))]))
        .await
        .unwrap();
    store.enqueue(&of("loud", 900)).await.unwrap();
    let serial = store.enqueue(&of("serial", 3)).await.unwrap();
    let worker = worker_on(&store).await;
    let mut seen = work_all(&worker, 20).await;
    seen.retain(|id| serial.contains(id));
    assert_eq!(seen, serial);
    let session = Session::of(fixture).await;
    assert_eq!(session.value::<i64>("SELECT count(*) FROM windlass.key_lookahead").await, 0);
}

/// Jobs that commit late, and are read in their turn before claims look ahead again, come once.
#[tokio::test]
async fn a_late_commit_comes_once() {
    let (fixture, store) = keyed(16, KeyLimit::default()).await;
    let loud = || (0..30).flat_map(|_| [of("loud", 1), of("louder", 1)].concat()).collect::<Vec<_>>();
    let mut enqueued = store.enqueue(&loud()).await.unwrap();
    let late = fixture.sql().await;
    late.batch_execute("BEGIN").await.unwrap();
    let enqueue = fixture.text("SELECT windlass.enqueue('k', '{}', 'q', key => 'late')");
    for _ in 0..3 {
        enqueued.push(JobId(late.query_one(&enqueue, &[]).await.unwrap().get(0)));
    }
    let worker = worker_on(&store).await;
    let mut done = claim_once(&worker, 2).await.0;
    enqueued.extend(store.enqueue(&[loud(), of("quiet", 1)].concat()).await.unwrap());
    // The second claim finds the quiet one; the third leaves twelve of the first sixty.
    for _ in 0..2 {
        done.extend(claim_once(&worker, 2).await.0);
    }
    let looked = "SELECT max(to_snapshot::text) FROM windlass.key_lookahead WHERE end_xid IS NULL AND cardinality(keys) = 2";
    let looked: String = Session::of(fixture).await.value(looked).await;
    assert!(looked.split(':').nth(2).is_some_and(|open| !open.is_empty()), "{looked}");
    late.batch_execute("COMMIT").await.unwrap();
    // Now it reads those and goes on with what committed since, the late ones first; then it looks ahead.
    complete(&worker, &done).await;
    let mut done: Vec<_> = done.iter().map(|held| held.job.id).collect();
    done.extend(work_all(&worker, 2).await);
    done.sort_unstable();
    enqueued.sort_unstable();
    assert_eq!(done, enqueued);
}

/// A backlog of jobs whose args are larger than a claim may bring in one piece goes on, too.
#[tokio::test]
async fn large_jobs_do_not_stop_it() {
    let (_fixture, store) = keyed(16, KeyLimit::default()).await;
    let args = Args::parse(&format!("{{\"text\":\"{}\"}}", "x".repeat(400))).unwrap();
    let large = || NewJob::new("k", args.clone()).with_queue(QUEUE).with_key("loud");
    let large: Vec<_> = (0..60).map(|_| large()).collect();
    let mut enqueued: BTreeSet<_> = store.enqueue(&large).await.unwrap().into_iter().collect();
    enqueued.extend(store.enqueue(&of("quiet", 2)).await.unwrap());
    let worker = worker_on(&store).await;
    let mut seen = BTreeSet::new();
    for _ in 0..100 {
        let demand = QueueDemand { max_bytes: 1_000, ..QueueDemand::new(QUEUE, 12) };
        let (held, more) = claim_within(&worker, demand).await;
        complete(&worker, &held).await;
        seen.extend(ids(&held));
        if held.is_empty() && !more {
            break;
        }
    }
    assert_eq!(seen, enqueued);
}

/// What was cancelled where it stands is not found ahead.
#[tokio::test]
async fn a_cancelled_job_is_not_found() {
    let (_fixture, store) = keyed(16, KeyLimit::default()).await;
    let loud = store.enqueue(&of("loud", 60)).await.unwrap();
    let quiet = store.enqueue(&of("quiet", 3)).await.unwrap();
    store.cancel(&quiet[1..2]).await.unwrap();
    let worker = worker_on(&store).await;
    let mut seen = BTreeSet::new();
    for _ in 0..3 {
        seen.extend(ids(&claim_once(&worker, 5).await.0));
    }
    assert!(seen.contains(&quiet[0]) && seen.contains(&quiet[2]) && !seen.contains(&quiet[1]));
    seen.extend(work_all(&worker, 60).await);
    assert_eq!(seen.len(), loud.len() + 2);
}

/// Whatever happens around it, in any order: each job that was enqueued and not cancelled completes once. The page is so small that claims look
/// ahead most of the time.
#[tokio::test]
async fn looking_ahead_loses_nothing() {
    let mut looked = 0;
    for seed in 0..4 {
        let limit = if seed % 2 == 0 { KeyLimit::default() } else { KeyLimit::default().with_concurrency(7) };
        let (fixture, store) = keyed(16, limit).await;
        looked += Play::begin(seed, fixture, store).await.run().await;
    }
    assert!(looked > 20, "claims looked ahead {looked} times only");
}

struct Play {
    rng: fastrand::Rng,
    session: Session,
    store: Arc<dyn Store>,
    workers: Vec<TestWorker>,
    held: Vec<(usize, Held)>,
    /// Each job that is to complete, and how often it did.
    done: BTreeMap<JobId, u32>,
    /// Jobs that were held when they were cancelled: one that comes back is over.
    stopped: BTreeSet<JobId>,
    /// A transaction that is open, and what it enqueued.
    open: Option<(Client, Vec<JobId>)>,
}

impl Play {
    async fn begin(seed: u64, fixture: Fixture, store: Arc<dyn Store>) -> Self {
        let workers = vec![worker_on(&store).await, worker_on(&store).await];
        let session = Session::of(fixture).await;
        Self {
            rng: fastrand::Rng::with_seed(seed),
            session,
            store,
            workers,
            held: Vec::new(),
            done: BTreeMap::new(),
            stopped: BTreeSet::new(),
            open: None,
        }
    }

    /// How often a step left off ahead of where the lane is read.
    async fn run(mut self) -> i64 {
        let mut looked = 0;
        for _ in 0..250 {
            match self.rng.u32(..100) {
                0..20 => self.enqueue().await,
                20..30 => self.transaction().await,
                30..60 => self.claim().await,
                60..80 => self.settle(2).await,
                80..88 => self.change().await,
                88..92 => drop(maintain_with(&self.store, SMALL).await),
                _ => looked += self.looks().await,
            }
        }
        if let Some((client, ids)) = self.open.take() {
            client.batch_execute("COMMIT").await.unwrap();
            self.done.extend(ids.into_iter().map(|id| (id, 0)));
        }
        self.settle(1).await;
        self.drain().await;
        let wrong: Vec<_> = self.done.iter().filter(|(_, times)| **times != 1).collect();
        assert!(wrong.is_empty(), "{wrong:?}");
        let left = "SELECT (SELECT count(*) FROM windlass.cancelled_in_log) + (SELECT count(*) FROM windlass.waiting)";
        assert_eq!(self.session.value::<i64>(left).await, 0, "rows of jobs that are done");
        looked
    }

    fn some(&mut self) -> Vec<NewJob> {
        if self.rng.u32(..3) == 0 {
            let count = self.rng.usize(16..48);
            return of("loud", count);
        }
        let key = format!("quiet{}", self.rng.u32(..4));
        of(&key, self.rng.usize(1..4))
    }

    async fn enqueue(&mut self) {
        let jobs = self.some();
        let ids = self.store.enqueue(&jobs).await.unwrap();
        self.done.extend(ids.into_iter().map(|id| (id, 0)));
    }

    /// Begins a transaction that enqueues, or ends the one that is open.
    async fn transaction(&mut self) {
        if let Some((client, ids)) = self.open.take() {
            let commits = self.rng.u32(..4) > 0;
            client.batch_execute(if commits { "COMMIT" } else { "ROLLBACK" }).await.unwrap();
            if commits {
                self.done.extend(ids.into_iter().map(|id| (id, 0)));
            }
            return;
        }
        let fixture = &self.session.fixture;
        let client = fixture.sql().await;
        client.batch_execute("BEGIN").await.unwrap();
        let key = self.rng.choice(["loud", "quiet0", "quiet9"]).unwrap();
        let enqueue = fixture.text(&format!("SELECT windlass.enqueue('k', '{{}}', 'q', key => '{key}')"));
        let mut ids = Vec::new();
        for nth in 0..self.rng.u32(1..12) {
            if nth % 7 == 3 {
                client.batch_execute("SAVEPOINT inside").await.unwrap();
            }
            ids.push(JobId(client.query_one(&enqueue, &[]).await.unwrap().get(0)));
        }
        self.open = Some((client, ids));
    }

    async fn claim(&mut self) {
        let who = self.rng.usize(..self.workers.len());
        let (held, _) = claim_once(&self.workers[who], self.rng.u32(1..25)).await;
        self.held.extend(held.into_iter().map(|held| (who, held)));
    }

    /// Settles one in so many of the jobs that are held.
    async fn settle(&mut self, one_in: usize) {
        for (who, held) in std::mem::take(&mut self.held) {
            if self.rng.usize(..one_in) > 0 {
                self.held.push((who, held));
                continue;
            }
            let worker = &self.workers[who];
            if self.rng.u32(..10) == 0 {
                worker.except(&held, Disposition::Return).await;
                if self.stopped.contains(&held.job.id) {
                    self.done.remove(&held.job.id);
                }
            } else {
                complete(worker, std::slice::from_ref(&held)).await;
                *self.done.get_mut(&held.job.id).expect("a job that was enqueued") += 1;
            }
        }
    }

    /// Cancels, edits or deletes a job, wherever it is.
    async fn change(&mut self) {
        let ids: Vec<_> = self.done.iter().filter(|(_, times)| **times == 0).map(|(id, _)| *id).collect();
        let Some(id) = self.rng.choice(ids) else { return };
        let call = self.rng.choice([
            "cancel($)",
            "edit($, priority => 3)",
            "edit($, priority => 0)",
            "edit($, max_attempts => #)",
            "delete($)",
        ]);
        let call =
            call.unwrap().replace('$', &id.to_string()).replace('#', &self.rng.u32(1..1_000).to_string());
        let said: String = self.session.value(&format!("SELECT windlass.{call}")).await;
        match said.as_str() {
            "cancelled" | "deleted" => drop(self.done.remove(&id)),
            "running" if call.starts_with("cancel") => drop(self.stopped.insert(id)),
            _ => {}
        }
    }

    /// Asks for what is kept, which is to be right. No job is where a row of it is to be stepped over.
    async fn looks(&mut self) -> i64 {
        assert_eq!(self.session.value::<i64>(IN_TWO_PLACES).await, 0);
        let available = self.done.values().filter(|times| **times == 0).count() - self.held.len();
        let counted: i64 = self.session.value("SELECT available FROM windlass.queues WHERE name = 'q'").await;
        assert_eq!(counted, available as i64);
        self.session.value("SELECT count(*) FROM windlass.key_lookahead WHERE keys IS NOT NULL").await
    }

    async fn drain(&mut self) {
        for id in work_all(&self.workers[0], 50).await {
            *self.done.get_mut(&id).expect("a job that was enqueued") += 1;
        }
    }
}
