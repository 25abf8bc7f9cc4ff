//! Kills and crashes around real workers on PostgreSQL: nothing acknowledged is lost, and everybody comes
//! back without help. Each test has a cluster of its own, because some of them take it down.

use crate::own_cluster::OwnCluster;
use std::{
    collections::HashSet,
    process::Stdio,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use windlass::{Client, Context, Job, JobId, JobState, Worker};

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

/// Not a test: the worker process of the others. Its jobs wait for the file that it is given.
#[tokio::test]
async fn child_worker() {
    let Ok(url) = std::env::var("WINDLASS_TEST_CHILD") else { return };
    let gate = std::env::var("WINDLASS_TEST_GATE").unwrap();
    let client = Client::connect(&url).await.unwrap();
    let handler = move |_: Work, _: Context| {
        let gate = gate.clone();
        async move {
            while !std::path::Path::new(&gate).exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    };
    let worker =
        Worker::builder(&client).queue("default", 50).lease(LEASE).handle(handler).start().await.unwrap();
    worker.wait().await;
}

/// Starts [`child_worker`] in a process of its own.
fn child(cluster: &OwnCluster, gate: &std::path::Path) -> tokio::process::Child {
    tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "faults::child_worker", "--nocapture"])
        .env("WINDLASS_TEST_CHILD", &cluster.url)
        .env("WINDLASS_TEST_GATE", gate)
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// A worker of this process that notes which jobs it ran.
async fn noting_worker(client: &Client) -> (Worker, Arc<Mutex<HashSet<JobId>>>) {
    let ran = Arc::new(Mutex::new(HashSet::new()));
    let seen = Arc::clone(&ran);
    let handler = move |_: Work, ctx: Context| {
        seen.lock().unwrap().insert(ctx.id());
        std::future::ready(())
    };
    let worker =
        Worker::builder(client).queue("default", 50).lease(LEASE).handle(handler).start().await.unwrap();
    (worker, ran)
}

fn signal(name: &str, process: &tokio::process::Child) {
    let id = process.id().expect("it runs").to_string();
    assert!(std::process::Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_worker_settles_nothing_of_what_it_lost_and_goes_on_with_new_jobs() {
    let cluster = OwnCluster::start();
    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("open");
    let client = Client::connect(&cluster.url).await.unwrap();
    client.migrate().await.unwrap();
    let ids = client.enqueue_many((0..10).map(|n| Work { n })).await.unwrap();
    let child = child(&cluster, &gate);
    until("the child holds all jobs", async || client.queues().await.unwrap()[0].running == 10).await;
    signal("STOP", &child);

    let (worker, ran) = noting_worker(&client).await;
    until("another worker completed them", async || client.queues().await.unwrap()[0].completed == 10).await;
    worker.shutdown().await;
    assert_eq!(ran.lock().unwrap().len(), 10);
    let settled = client.job(ids[0]).await.unwrap().unwrap();

    // The handlers of the child end now, and what they say comes too late.
    std::fs::write(&gate, "").unwrap();
    signal("CONT", &child);
    let new = client.enqueue(Work { n: 99 }).await.unwrap();
    until("the child registered anew and works", async || {
        client.job(new).await.unwrap().unwrap().state == JobState::Completed
    })
    .await;
    let queue = &client.queues().await.unwrap()[0];
    assert_eq!((queue.completed, queue.running, queue.available), (11, 0, 0));
    let after = client.job(ids[0]).await.unwrap().unwrap();
    assert_eq!((after.claimed_by, after.finished_at), (settled.claimed_by, settled.finished_at));
    assert_ne!(after.claimed_by, client.job(new).await.unwrap().unwrap().claimed_by);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_jobs_of_a_killed_worker_run_again() {
    let cluster = OwnCluster::start();
    let client = Client::connect(&cluster.url).await.unwrap();
    client.migrate().await.unwrap();
    let ids = client.enqueue_many((0..50).map(|n| Work { n })).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut child = child(&cluster, &folder.path().join("never"));
    until("the child holds all jobs", async || client.queues().await.unwrap()[0].running == 50).await;
    child.kill().await.unwrap();

    let (worker, ran) = noting_worker(&client).await;
    until("the jobs ran again", async || ran.lock().unwrap().len() == 50).await;
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
    let (worker, ran) = noting_worker(&client).await;

    let acknowledged = Arc::new(Mutex::new(Vec::<JobId>::new()));
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
