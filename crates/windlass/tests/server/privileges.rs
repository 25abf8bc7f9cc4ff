//! A whole engine as a role that may only work, with jobs of a role that may only enqueue.

use std::{sync::Arc, time::Duration};
use tokio_postgres::NoTls;
use windlass::{
    Access, Client, Context, ErrorKind, IntoJob, Job, JobId, JobState, Outcome, Settings, Worker,
};

const SCHEMA: &str = "facade_privileges";
const DEADLINE: Duration = Duration::from_secs(90);
const HOUR: Duration = Duration::from_secs(3600);

#[derive(serde::Serialize, serde::Deserialize)]
enum Step {
    Run,
    /// Fails at first.
    Retry,
    /// Completes in a transaction in which it enqueues [`Step::Run`].
    Chain,
}

impl Job for Step {
    const KIND: &'static str = "step";
}

/// The URL of that role, and a connection of the user's own.
async fn connect(role: &str) -> (String, tokio_postgres::Client) {
    let url = std::env::var("WINDLASS_TEST_POSTGRES")
        .expect("WINDLASS_TEST_POSTGRES is not set; run `make test` or `scripts/with-postgres cargo test -p windlass`")
        .replace("//postgres@", &format!("//{role}@"));
    let (db, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    (format!("{url}?schema={SCHEMA}"), db)
}

async fn until(what: &str, mut look: impl AsyncFnMut() -> bool) {
    let looking = async {
        while !look().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(DEADLINE, looking).await.unwrap_or_else(|_| panic!("still not: {what}"));
}

async fn completes(client: &Client, id: JobId) {
    until("a job completes", async || {
        client.job(id).await.unwrap().is_some_and(|job| job.state == JobState::Completed)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_runs_as_a_worker() {
    let (url, db) = connect("postgres").await;
    db.batch_execute("CREATE ROLE facade_web LOGIN; CREATE ROLE facade_worker LOGIN").await.unwrap();
    let owner = Client::connect(&url).await.unwrap();
    owner.migrate().await.unwrap();
    owner.grant(Access::Producer, "facade_web").await.unwrap();
    owner.grant(Access::Worker, "facade_worker").await.unwrap();
    let web = Client::connect(&connect("facade_web").await.0).await.unwrap();
    let (url, db) = connect("facade_worker").await;

    // A worker that dies with a job.
    let stranded = web.enqueue(Step::Run).await.unwrap();
    // Who may not look at jobs is told so, and does not wait for nothing.
    assert_eq!(web.wait(stranded, HOUR).await.unwrap_err().kind(), ErrorKind::PermissionDenied);
    let dies = format!(
        "SELECT c.* FROM {SCHEMA}.register('dies', '{{default}}', '{{}}', 0.001) AS w, {SCHEMA}.claim(w, '{{default}}', '{{1}}') AS c"
    );
    db.batch_execute(&dies).await.unwrap();

    let client = Client::connect(&url).await.unwrap();
    let (chain, db) = (client.clone(), Arc::new(tokio::sync::Mutex::new(db)));
    let handler = move |step: Step, ctx: Context| {
        let (chain, db) = (chain.clone(), Arc::clone(&db));
        async move {
            match step {
                Step::Run => anyhow::Ok(Outcome::complete_with("done")),
                Step::Retry if ctx.attempt() == 1 => Ok(Outcome::Retry {
                    after: Some(Duration::from_millis(10)),
                    error: "at first".to_owned(),
                }),
                Step::Retry => Ok(Outcome::Complete(None)),
                Step::Chain => {
                    let mut db = db.lock().await;
                    let tx = db.transaction().await?;
                    chain.enqueue_in(&tx, Step::Run).await?;
                    chain.complete_in(&tx, &ctx).await?;
                    tx.commit().await?;
                    Ok(Outcome::Complete(None))
                }
            }
        }
    };
    // It never polls in time: what comes while it is idle, it is told of.
    let worker = Worker::builder(&client)
        .queue("default", 4)
        .lease(Duration::from_secs(2))
        .configure(|config| config.poll_interval = HOUR)
        .handle(handler)
        .start()
        .await
        .unwrap();
    completes(&owner, stranded).await;
    assert_eq!(owner.job(stranded).await.unwrap().unwrap().crash_count, 1, "it was rescued");
    let ways = [
        Step::Run.into_job().unwrap(),
        Step::Retry.into_job().unwrap(),
        Step::Chain.into_job().unwrap(),
        Step::Run.into_job().unwrap().with_delay(Duration::from_millis(300)),
    ];
    let mut done = Vec::new();
    for job in ways {
        let id = web.enqueue(job).await.unwrap();
        completes(&owner, id).await;
        done.push(id);
    }
    until("the chained job ran too", async || owner.queues().await.unwrap()[0].completed == 6).await;
    let ended = client.wait(done[0], HOUR).await.unwrap().expect("it has ended");
    assert_eq!(ended.state, JobState::Completed, "a worker may wait for jobs");
    let error = client.job(done[0]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");

    // Its housekeeping empties segments: what was done goes.
    owner
        .configure(&Settings::default().with_retention(Duration::ZERO).with_segment_bytes(1 << 20))
        .await
        .unwrap();
    until("what is done is removed", async || {
        web.enqueue(Step::Run).await.unwrap();
        owner.job(done[0]).await.unwrap().is_none()
    })
    .await;
    worker.shutdown().await;
    for client in [owner, web, client] {
        client.close().await;
    }
}
