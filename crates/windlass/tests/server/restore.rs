//! A database moves to another cluster by pg_dump and pg_restore, while a worker runs on: nothing is lost, nothing
//! that was done before is done again, and no two jobs have one id.

use crate::{own_cluster::OwnCluster, strand::Forwarder};
use std::{
    collections::BTreeMap,
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use windlass::{Client, Context, Job, JobId, JobState, Worker};

#[derive(serde::Serialize, serde::Deserialize)]
struct Work {}

impl Job for Work {
    const KIND: &'static str = "work";
}

const DEADLINE: Duration = Duration::from_secs(90);
const BEFORE: usize = 10;
const AFTER: usize = 60;

pub(crate) async fn until(what: &str, mut look: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while !look().await {
        assert!(started.elapsed() < DEADLINE, "still not after {DEADLINE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// How often each job ran. While it is closed, jobs run on and are noted later.
#[derive(Clone, Default)]
pub(crate) struct Runs {
    noted: Arc<Mutex<BTreeMap<JobId, u32>>>,
    closed: Arc<AtomicBool>,
}

impl Runs {
    pub(crate) async fn note(self, job: JobId) {
        while self.closed.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        *self.noted.lock().unwrap().entry(job).or_default() += 1;
    }

    pub(crate) fn close(&self, closed: bool) {
        self.closed.store(closed, Ordering::SeqCst);
    }

    pub(crate) fn counts(&self) -> BTreeMap<JobId, u32> {
        self.noted.lock().unwrap().clone()
    }
}

/// `host:port` of a URL.
pub(crate) fn address(url: &str) -> String {
    url.split('@').nth(1).and_then(|rest| rest.split('/').next()).expect("a URL with a host").to_owned()
}

pub(crate) fn run(program: &str, arguments: &[&str]) {
    let bin = std::env::var("WINDLASS_TEST_PGBIN").expect("WINDLASS_TEST_PGBIN is not set");
    let status = Command::new(format!("{bin}/{program}")).args(arguments).status().unwrap();
    assert!(status.success(), "{program} {arguments:?} failed");
}

/// Jobs of the new cluster before any worker comes: plain, in a savepoint, in a block that catches errors.
async fn enqueue_by_sql(url: &str) {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let enqueue = "windlass.enqueue('work', '{}')";
    let all = format!(
        "SELECT {enqueue};
         BEGIN; SELECT pg_current_xact_id(); SAVEPOINT s; SELECT {enqueue}; COMMIT;
         DO $$ BEGIN PERFORM {enqueue}; BEGIN PERFORM {enqueue}; EXCEPTION WHEN division_by_zero THEN END; END $$"
    );
    client.batch_execute(&all).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_runs_on_across_a_restore_finishes_everything() {
    run_across(&OwnCluster::start(), &OwnCluster::start(), &[]).await;
}

/// The restore is the new cluster's first transaction, as the migration was the old one's: both have one id, by which the log told where it was at home.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_runs_on_across_a_restore_in_one_transaction_finishes_everything() {
    run_across(&OwnCluster::start(), &OwnCluster::start(), &["-1"]).await;
}

/// The same where nothing but transactions tells the two clusters apart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_runs_on_across_a_restore_between_twins_finishes_everything() {
    let [old, new] = OwnCluster::twins();
    run_across(&old, &new, &["-1"]).await;
}

/// The id of the transaction that wrote the row of table home.
async fn home_writer(url: &str) -> i64 {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.query_one("SELECT xmin::text::bigint FROM windlass.home", &[]).await.unwrap().get(0)
}

async fn run_across(old: &OwnCluster, new: &OwnCluster, restore: &[&str]) {
    let way = Forwarder::start(address(&old.url)).await;
    let url = format!("postgres://postgres@127.0.0.1:{}/postgres", way.port);
    let client = Client::connect(&url).await.unwrap();
    client.migrate().await.unwrap();
    // The old cluster is ahead of the new one, so that old positions look as if they were still to come.
    run(
        "psql",
        &[
            "-q",
            "-d",
            &old.url,
            "-c",
            "DO $$ BEGIN FOR i IN 1..2000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$",
        ],
    );

    let runs = Runs::default();
    let noted = runs.clone();
    let handler = move |_: Work, context: Context| noted.clone().note(context.id());
    let worker = Worker::builder(&client).queue("default", 5).handle(handler).start().await.unwrap();
    let enqueue = async |count| client.enqueue_many((0..count).map(|_| Work {})).await.unwrap();
    let done = enqueue(BEFORE).await;
    until("the first are done", async || {
        client.queues().await.unwrap().iter().any(|queue| queue.completed == BEFORE as u64)
    })
    .await;
    runs.close(true);
    let open = enqueue(AFTER).await;
    until("some are running", async || worker.stats().running == 5).await;

    let dump = tempfile::NamedTempFile::new().unwrap();
    let file = dump.path().to_str().unwrap();
    run("pg_dump", &["-Fc", "-d", &old.url, "-n", "windlass", "-f", file]);
    run("pg_restore", &[&["-d", &*new.url, file][..], restore].concat());
    let writers = (home_writer(&old.url).await, home_writer(&new.url).await);
    assert_eq!(writers.0 == writers.1, restore == ["-1"], "{writers:?}");
    enqueue_by_sql(&new.url).await;
    way.repoint(address(&new.url));
    runs.close(false);

    until("everything is done", async || {
        let Ok(queues) = client.queues().await else { return false };
        queues.iter().any(|queue| queue.completed == (AFTER + 4) as u64)
    })
    .await;
    let later = enqueue(3).await;
    worker.shutdown().await;
    let runs = runs.counts();
    assert!(done.iter().all(|id| runs[id] == 1), "what was done before is done again");
    assert!(open.iter().all(|id| runs.contains_key(id)), "lost");
    let by_sql = runs.keys().filter(|id| !done.contains(id) && !open.contains(id) && !later.contains(id));
    assert_eq!(by_sql.count(), 4);
    for id in &open {
        assert_eq!(client.job(*id).await.unwrap().unwrap().state, JobState::Completed);
    }
}
