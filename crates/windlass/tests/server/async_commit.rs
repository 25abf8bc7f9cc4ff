//! Where commits do not wait for the disk (`synchronous_commit = off`), a crash of the server forgets acknowledged enqueues. It does not
//! forget what a worker was told is settled: nobody would run that job again.

use crate::{failover::connect, own_cluster::OwnCluster, restore::until};
use tokio::sync::watch;
use windlass::{Client, Job, JobState, Worker};

#[derive(serde::Serialize, serde::Deserialize)]
enum Work {
    Completes,
    Fails,
}

impl Job for Work {
    const KIND: &'static str = "work";
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_does_not_forget_what_was_settled() {
    let cluster = OwnCluster::start();
    let admin = connect(&cluster.url).await;
    // Nothing but a commit that waits writes the log within ten seconds.
    for setting in ["synchronous_commit = off", "wal_writer_delay = '10s'"] {
        admin.batch_execute(&format!("ALTER SYSTEM SET {setting}")).await.unwrap();
    }
    admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    let client = Client::connect(&cluster.url).await.unwrap();
    client.migrate().await.unwrap();

    let gate = watch::Sender::new(false);
    let opened = gate.clone();
    let handler = move |work: Work| {
        let mut gate = opened.subscribe();
        async move {
            gate.wait_for(|open| *open).await.map_err(|error| error.to_string())?;
            if matches!(work, Work::Fails) { Err("it fails".to_owned()) } else { Ok(()) }
        }
    };
    let worker = Worker::builder(&client).queue("default", 2).handle(handler).start().await.unwrap();
    let completes = client.enqueue(Work::Completes).await.unwrap();
    let fails = client.enqueue(Work::Fails).await.unwrap();
    until("both run", async || worker.stats().running == 2).await;
    admin.batch_execute("CHECKPOINT").await.unwrap(); // the jobs and their claims are on the disk
    gate.send_replace(true);
    until("both are settled", async || worker.stats().settled == 2).await;
    cluster.crash_and_restart();

    let state = async |id| client.job(id).await.ok().flatten().map(|job| job.state);
    until("the store answers", async || state(completes).await.is_some()).await;
    assert_eq!(state(completes).await, Some(JobState::Completed));
    assert_eq!(state(fails).await, Some(JobState::Retryable));
    worker.shutdown().await;
}
