//! Kills and crashes around real workers on PostgreSQL: nothing acknowledged is lost, and everybody comes
//! back without help. Each test has a cluster of its own, because some of them take it down.
#![cfg(all(unix, feature = "postgres"))]

mod own_cluster;

use own_cluster::OwnCluster;
use std::{
    collections::HashSet,
    process::Stdio,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use windlass::{Client, Context, Job, JobId, Worker};

#[derive(serde::Serialize, serde::Deserialize)]
struct Work {
    n: u64,
}

impl Job for Work {
    const KIND: &'static str = "work";
}

const LEASE: Duration = Duration::from_secs(2);
const DEADLINE: Duration = Duration::from_secs(90);

async fn until(what: &str, mut look: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while !look().await {
        assert!(started.elapsed() < DEADLINE, "still not after {DEADLINE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Not a test: the worker process of the next one, which ends by SIGKILL. It never finishes a job.
#[tokio::test]
async fn child_worker() {
    let Ok(url) = std::env::var("WINDLASS_TEST_CHILD") else { return };
    let client = Client::connect(&url).await.unwrap();
    let handler = |_: Work, _: Context| std::future::pending::<()>();
    let worker = Worker::builder(&client).queue("default", 50).lease(LEASE).handle(handler).start().await.unwrap();
    worker.wait().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_jobs_of_a_killed_worker_run_again_within_its_lease_and_three_seconds() {
    let cluster = OwnCluster::start();
    let client = Client::connect(&cluster.url).await.unwrap();
    client.migrate().await.unwrap();
    let ids = client.enqueue_many((0..50).map(|n| Work { n })).await.unwrap();
    let mut child = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_worker", "--nocapture"])
        .env("WINDLASS_TEST_CHILD", &cluster.url)
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    until("the child holds all jobs", async || client.queues().await.unwrap()[0].running == 50).await;
    child.kill().await.unwrap();
    let killed = Instant::now();

    let ran = Arc::new(Mutex::new(HashSet::new()));
    let seen = Arc::clone(&ran);
    let handler = move |_: Work, ctx: Context| {
        seen.lock().unwrap().insert(ctx.id());
        std::future::ready(())
    };
    let worker = Worker::builder(&client).queue("default", 50).lease(LEASE).handle(handler).start().await.unwrap();
    until("the jobs ran again", async || ran.lock().unwrap().len() == 50).await;
    let after = killed.elapsed();
    assert!(after <= LEASE + Duration::from_secs(3), "{after:?} is later than the lease and 3 s");
    worker.shutdown().await;
    assert_eq!(*ran.lock().unwrap(), ids.iter().copied().collect::<HashSet<_>>());
    assert_eq!(client.queues().await.unwrap()[0].completed, 50);
    let record = client.job(ids[0]).await.unwrap().unwrap();
    assert_eq!((record.crash_count, record.attempt), (1, 1), "a crash is not an attempt");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crashing_database_loses_no_acknowledged_job_and_workers_come_back() {
    let cluster = OwnCluster::start();
    let client = Client::connect(&cluster.url).await.unwrap();
    client.migrate().await.unwrap();
    let ran = Arc::new(Mutex::new(HashSet::<JobId>::new()));
    let seen = Arc::clone(&ran);
    let handler = move |_: Work, ctx: Context| {
        seen.lock().unwrap().insert(ctx.id());
        std::future::ready(())
    };
    let worker = Worker::builder(&client).queue("default", 20).lease(LEASE).handle(handler).start().await.unwrap();

    let acknowledged = Arc::new(Mutex::new(Vec::<JobId>::new()));
    let stop = Arc::new(tokio::sync::Notify::new());
    let mut producers = Vec::new();
    for n in 0..4 {
        let (client, acknowledged) = (client.clone(), Arc::clone(&acknowledged));
        producers.push(tokio::spawn(async move {
            loop {
                match client.enqueue(Work { n }).await {
                    Ok(id) => acknowledged.lock().unwrap().push(id),
                    // Down just now: neither acknowledged nor counted.
                    Err(error) => {
                        assert!(error.is_connection_loss(), "{error}");
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                }
            }
        }));
    }
    for _ in 0..3 {
        let before = acknowledged.lock().unwrap().len();
        until("jobs flow", async || {
            acknowledged.lock().unwrap().len() > before + 200 && ran.lock().unwrap().len() > before
        })
        .await;
        cluster.crash_and_restart();
    }
    let before = ran.lock().unwrap().len();
    until("the same worker works again", async || ran.lock().unwrap().len() > before + 100).await;
    for producer in &producers {
        producer.abort();
    }
    drop(stop);
    until("every acknowledged job ran", async || {
        let ran = ran.lock().unwrap();
        acknowledged.lock().unwrap().iter().all(|id| ran.contains(id))
    })
    .await;
    until("every job is settled", async || {
        client.queues().await.is_ok_and(|queues| queues[0].available == 0 && queues[0].running == 0)
    })
    .await;
    worker.shutdown().await;
}
