//! The server lets nobody in for some seconds, as while somebody moves a database: to a running worker that is an outage. Nothing is known of what it has to say then,
//! so no job is given up, and none starts a second time.

use crate::{failover::connect, own_cluster::OwnCluster, restore::until};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{sync::watch, time::sleep};
use windlass::{Client, ErrorKind, Job, JobState, Outcome, Worker};

#[derive(serde::Serialize, serde::Deserialize)]
enum Work {
    Completes,
    Returns,
    Fails,
}

impl Job for Work {
    const KIND: &'static str = "work";
}

/// Together as long as it takes until a settlement that the store refuses for its contents is given up.
const EACH: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_lets_nobody_in_costs_no_job() {
    let cluster = OwnCluster::start();
    let admin = connect(&cluster.url).await;
    let tell = async |sql: &str| admin.batch_execute(sql).await.unwrap();
    tell("CREATE DATABASE app").await;
    let (server, _) = cluster.url.rsplit_once('/').expect("the URL names a database");
    let client = Client::connect(&format!("{server}/app")).await.unwrap();
    client.migrate().await.unwrap();

    let (gate, starts) = (watch::Sender::new(false), Arc::new(AtomicUsize::new(0)));
    let (opened, counted) = (gate.clone(), Arc::clone(&starts));
    let handler = move |work: Work| {
        counted.fetch_add(1, Ordering::SeqCst);
        let mut gate = opened.subscribe();
        async move {
            gate.wait_for(|open| *open).await.map_err(|error| error.to_string())?;
            match work {
                Work::Completes => Ok(Outcome::Complete(None)),
                Work::Returns => Ok(Outcome::complete_with(&7)),
                Work::Fails => Err("it fails".to_owned()),
            }
        }
    };
    let worker = Worker::builder(&client).queue("default", 3).handle(handler).start().await.unwrap();
    let mut jobs = Vec::new();
    for work in [Work::Completes, Work::Returns, Work::Fails] {
        jobs.push(client.enqueue(work).await.unwrap());
    }
    until("all run", async || worker.stats().running == 3).await;

    let refused = async || client.job(jobs[0]).await.unwrap_err();
    tell("ALTER DATABASE app ALLOW_CONNECTIONS false").await;
    tell("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'app'").await;
    gate.send_replace(true);
    sleep(EACH).await;
    let error = refused().await;
    assert!(
        error.kind() == ErrorKind::Unavailable && error.to_string().contains("not currently accepting"),
        "{error}"
    );
    tell("ALTER DATABASE app RENAME TO elsewhere").await;
    sleep(EACH).await;
    let error = refused().await;
    assert!(
        error.kind() == ErrorKind::Unavailable && error.to_string().contains("does not exist"),
        "{error}"
    );
    tell("ALTER DATABASE elsewhere RENAME TO app; ALTER DATABASE app ALLOW_CONNECTIONS true").await;

    let state = async |id| client.job(id).await.ok().flatten().map(|job| job.state);
    until("what became of them is stored", async || state(jobs[0]).await == Some(JobState::Completed)).await;
    until("all of it", async || worker.stats().settled == 3).await;
    assert_eq!(client.result::<u32>(jobs[1]).await.unwrap(), Some(7));
    assert_eq!(state(jobs[2]).await, Some(JobState::Retryable));
    assert_eq!(starts.load(Ordering::SeqCst), 3, "none starts twice");
    let last = client.enqueue(Work::Completes).await.unwrap();
    until("it works on", async || state(last).await == Some(JobState::Completed)).await;
    worker.shutdown().await;
}
