use crate::session::Session;
use peers::{Job, Tally, Worker};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{Semaphore, mpsc, watch},
    task::JoinHandle,
    time::timeout,
};
use tokio_postgres::{Statement, types::Json};

/// Jobs of a claim at most, and of a delete.
pub(crate) const CLAIM: i64 = 1_000;
pub(crate) const DELETE: usize = 1_000;
/// How long an idle worker waits when no notification comes.
pub(crate) const POLL: Duration = Duration::from_secs(1);

const CLAIM_SQL: &str = "UPDATE job SET state = 1, worker = pg_backend_pid() WHERE id = ANY(ARRAY( \
     SELECT id FROM job WHERE state = 0 ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED)) RETURNING id, args";
const DELETE_SQL: &str = "DELETE FROM job WHERE id = ANY($1)";
/// Statements are planned once, perhaps while the table is empty: without these such a plan reads the whole table.
const PLAN_SQL: &str = "SET enable_seqscan = off; SET enable_bitmapscan = off";

/// One claims ahead of the handlers, one deletes behind them, each on a connection of its own.
pub(crate) struct Running {
    ready: Option<Ready>,
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<anyhow::Result<()>>>,
}

struct Ready {
    claims: (Session, Statement),
    deletes: (Session, Statement),
    listener: Session,
    concurrency: usize,
    tally: Arc<Tally>,
}

type Claimed = (i64, Json<Job>);

impl Running {
    pub(crate) async fn connect(url: &str, concurrency: usize, tally: Arc<Tally>) -> anyhow::Result<Self> {
        let claims = planned(url, CLAIM_SQL).await?;
        let deletes = planned(url, DELETE_SQL).await?;
        let listener = Session::open(url).await?;
        listener.batch_execute("LISTEN job").await?;
        let ready = Some(Ready { claims, deletes, listener, concurrency, tally });
        Ok(Self { ready, stop: watch::Sender::new(false), tasks: Vec::new() })
    }
}

async fn planned(url: &str, sql: &str) -> anyhow::Result<(Session, Statement)> {
    let session = Session::open(url).await?;
    session.batch_execute(PLAN_SQL).await?;
    let statement = session.prepare(sql).await?;
    Ok((session, statement))
}

impl Worker for Running {
    async fn start(&mut self) -> anyhow::Result<()> {
        let Some(Ready { claims, deletes, listener, concurrency, tally }) = self.ready.take() else {
            anyhow::bail!("the worker was started before");
        };
        // A batch waits here while the one before is handled.
        let (claimed, jobs) = mpsc::channel(1);
        let (done, ended) = mpsc::unbounded_channel();
        self.tasks.push(tokio::spawn(claim(claims, listener, claimed, self.stop.subscribe())));
        self.tasks.push(tokio::spawn(handle(jobs, concurrency, tally, done)));
        self.tasks.push(tokio::spawn(delete(deletes, ended)));
        Ok(())
    }

    async fn stop(self) -> anyhow::Result<()> {
        self.stop.send_replace(true);
        for task in self.tasks {
            task.await??;
        }
        Ok(())
    }
}

async fn claim(
    (session, statement): (Session, Statement),
    listener: Session,
    claimed: mpsc::Sender<Vec<Claimed>>,
    mut stop: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    loop {
        let Ok(room) = claimed.reserve().await else { return Ok(()) };
        if *stop.borrow() {
            return Ok(());
        }
        let rows = session.query(&statement, &[&CLAIM]).await?;
        if rows.is_empty() {
            tokio::select! {
                _ = timeout(POLL, listener.news.notified()) => {}
                _ = stop.changed() => {}
            }
        } else {
            let mut batch = rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?)));
            room.send(batch.by_ref().collect::<Result<_, tokio_postgres::Error>>()?);
        }
    }
}

async fn handle(
    mut jobs: mpsc::Receiver<Vec<Claimed>>,
    concurrency: usize,
    tally: Arc<Tally>,
    done: mpsc::UnboundedSender<i64>,
) -> anyhow::Result<()> {
    let permits = Arc::new(Semaphore::new(concurrency));
    while let Some(batch) = jobs.recv().await {
        for (row, Json(job)) in batch {
            let permit = Arc::clone(&permits).acquire_owned().await?;
            let (tally, done) = (Arc::clone(&tally), done.clone());
            tokio::spawn(async move {
                tally.handle(job.id).await;
                drop(permit);
                // The receiver is gone only when a delete failed; that error is told.
                let _ = done.send(row);
            });
        }
    }
    Ok(())
}

/// Deletes whatever is done since the last delete: the busier, the more at once.
async fn delete(
    (session, statement): (Session, Statement),
    mut ended: mpsc::UnboundedReceiver<i64>,
) -> anyhow::Result<()> {
    let mut rows = Vec::with_capacity(DELETE);
    while ended.recv_many(&mut rows, DELETE).await > 0 {
        session.execute(&statement, &[&rows]).await?;
        rows.clear();
    }
    Ok(())
}
