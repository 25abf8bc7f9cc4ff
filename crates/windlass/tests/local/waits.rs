//! Waiting for jobs over a store that hints at no ends and takes its time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use windlass::{Args, Client, JobId, JobState, NewJob};
use windlass_core::{Ended, Error, ErrorKind, Result, Store, wrap_store};

/// How long a look at jobs takes.
const LOOK: Duration = Duration::from_millis(6);
/// Longer than anybody waits for a look at a job that ended.
const SOON: Duration = Duration::from_secs(2);

struct Slow {
    store: Arc<dyn Store>,
    /// Whether the next look fails.
    fails: AtomicBool,
    /// How often somebody looked for the first job.
    looks: AtomicUsize,
}

wrap_store! {
    impl JobStore for Slow, through store:
    [capabilities migrate enqueue enqueue_once enqueue_unique register heartbeat deregister claim settle report checkpoints suspect rescue promote maintain
     settings configure retention set_retention cancel retry edit delete pause drain_worker limit limit_keys key_limits share job jobs any_available coming queues_by history events status wakeup close]

    async fn ended(&self, ids: &[JobId]) -> Result<Ended> {
        self.looks.fetch_add(usize::from(ids.contains(&JobId(1))), Ordering::Relaxed);
        sleep(LOOK).await;
        if self.fails.swap(false, Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Unavailable, "no answer"));
        }
        self.store.ended(ids).await
    }
}

/// A client with so many jobs that wait.
async fn with_jobs(jobs: usize) -> (Client, Arc<Slow>, Vec<JobId>) {
    let store = Arc::clone(windlass::testing::client().store());
    let slow = Arc::new(Slow { store, fails: AtomicBool::new(false), looks: AtomicUsize::new(0) });
    let client = Client::from_store(Arc::<Slow>::clone(&slow));
    let job = || NewJob::new("work", Args::parse("{}").unwrap());
    let ids = client.enqueue_many((0..jobs).map(|_| job())).await.unwrap();
    assert_eq!(ids[0], JobId(1));
    (client, slow, ids)
}

/// Somebody begins to wait for this job every millisecond, for a moment.
fn others(client: &Client, job: JobId) -> JoinSet<()> {
    let (client, mut tasks) = (client.clone(), JoinSet::new());
    tasks.spawn(async move {
        let mut waits = JoinSet::new();
        loop {
            let client = client.clone();
            waits.spawn(async move { client.wait(job, Duration::from_millis(50)).await.map(drop) });
            sleep(Duration::from_millis(1)).await;
            while let Some(waited) = waits.try_join_next() {
                waited.unwrap().unwrap();
            }
        }
    });
    tasks
}

#[tokio::test(start_paused = true)]
async fn who_begins_to_wait_puts_off_nobody() {
    let (client, slow, ids) = with_jobs(2).await;
    let waiting = client.clone();
    let waiter = tokio::spawn(async move { waiting.wait(JobId(1), Duration::from_secs(60)).await });
    let others = others(&client, ids[1]);
    sleep(Duration::from_secs(10)).await;
    let looks = slow.looks.load(Ordering::Relaxed);
    assert!((10..=25).contains(&looks), "at first more often, then once a second: {looks}");
    client.cancel(&[JobId(1)]).await.unwrap();
    let ended = Instant::now();
    let job = waiter.await.unwrap().unwrap().expect("it ended");
    assert_eq!(job.state, JobState::Cancelled);
    assert!(ended.elapsed() < SOON, "{:?}", ended.elapsed());
    drop(others);
}

#[tokio::test(start_paused = true)]
async fn a_look_that_fails_is_made_again() {
    let (client, slow, ids) = with_jobs(2_501).await;
    let (ended, other) = ids.split_at(2_500);
    client.cancel(ended).await.unwrap();
    slow.fails.store(true, Ordering::Relaxed);
    let mut waiters = JoinSet::new();
    for &id in ended {
        let client = client.clone();
        waiters.spawn(async move { client.wait(id, Duration::from_secs(60)).await });
    }
    let others = others(&client, other[0]);
    let told = async {
        while let Some(told) = waiters.join_next().await {
            assert!(told.unwrap().unwrap().is_some());
        }
    };
    timeout(SOON, told).await.expect("all are told");
    assert!(!slow.fails.load(Ordering::Relaxed), "one failed");
    drop(others);
}

/// What ends right after somebody began to wait is not waited for until all are looked at, however long others have waited.
#[tokio::test(start_paused = true)]
async fn who_begins_to_wait_is_told_soon() {
    let (client, _, ids) = with_jobs(2).await;
    let waiting = client.clone();
    let other = tokio::spawn(async move { waiting.wait(JobId(1), Duration::from_secs(60)).await });
    sleep(Duration::from_millis(10_200)).await;
    let (job, waiting) = (ids[1], client.clone());
    let waiter = tokio::spawn(async move { waiting.wait(job, Duration::from_secs(60)).await });
    sleep(Duration::from_millis(20)).await;
    client.cancel(&[job]).await.unwrap();
    let ended = Instant::now();
    assert!(waiter.await.unwrap().unwrap().is_some());
    assert!(ended.elapsed() < Duration::from_millis(100), "{:?}", ended.elapsed());
    other.abort();
}
