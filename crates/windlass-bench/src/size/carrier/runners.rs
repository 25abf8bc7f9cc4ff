//! Burdens that are there only as long as a worker is.

use crate::{
    measure::open_session,
    size::{burden::Burden, task::Task},
};
use std::{future::pending, sync::Arc, time::Duration};
use tokio::sync::Notify;
use windlass::{Client, Context, IntoJob, RawJob, StoreKind, Worker};
use windlass_cli::{
    failure::{Failure, Outcome},
    measure::Noop,
};

/// The kind of the job that runs all the time.
const LONG: &str = "windlass.long";
/// As many times the ring of segments can move on before it comes to the one of the long job.
const TURNS: u64 = 3;
/// A segment in which nothing was settled stays open, so each gets a few jobs.
const JOBS_OF_A_TURN: u64 = 10;
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The workers.
#[derive(Default)]
pub(super) struct Runners(Vec<Worker>);

impl Runners {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Workers of a queue without jobs. Each listens on a connection of its own; they share those for calls, so that a
    /// server with a few hundred connections can have as many workers.
    pub(super) async fn idle(&mut self, client: &Client, amount: u64) -> Outcome {
        for _ in 0..amount {
            let builder = Worker::builder(client).queue(Burden::QUEUE, 10);
            self.0.push(builder.handle_any(|_: RawJob, _: Context| async {}).start().await?);
        }
        Ok(())
    }

    /// A worker that runs one job until it is stopped. On PostgreSQL the log moves on three times meanwhile, as far as
    /// it can: the job, its claim and the ring stand as they do after a day and a half under the usual settings.
    pub(super) async fn long(&mut self, client: &Client, task: &Task) -> Outcome {
        let started = Arc::new(Notify::new());
        let told = Arc::clone(&started);
        let builder = Worker::builder(client).queue(Burden::QUEUE, 10).handle(|_: Noop| async {});
        let worker = builder
            .handle_kind(LONG, move |_: RawJob, _: Context| {
                told.notify_one();
                pending::<()>()
            })
            .start()
            .await?;
        let job = windlass::NewJob::new(LONG, windlass::Args::parse("{}")?).with_queue(Burden::QUEUE);
        client.enqueue(job).await?;
        started.notified().await;
        for turn in 1..=TURNS {
            let jobs = (0..JOBS_OF_A_TURN).map(|id| Ok(Noop { id }.into_job()?.with_queue(Burden::QUEUE)));
            client.enqueue_many(jobs.collect::<windlass::Result<Vec<_>>>()?).await?;
            while worker.stats().settled < turn * JOBS_OF_A_TURN {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            if StoreKind::of(&task.url)? == StoreKind::Postgres {
                move_on(task).await?;
            }
        }
        self.0.push(worker);
        Ok(())
    }

    /// Ends them; what they hold is handed back.
    pub(super) async fn stop(self) {
        for worker in &self.0 {
            worker.abort_now();
        }
        for worker in &self.0 {
            worker.wait().await;
        }
    }
}

/// Closes the current segment, as housekeeping does when it is full.
async fn move_on(task: &Task) -> Outcome {
    let failed = |why: String| Failure::failed("unavailable", format!("cannot move the log on: {why}"));
    let session = open_session(&task.url).await.map_err(|error| failed(error.to_string()))?;
    let schema = &task.place;
    let turn = format!(
        "with alone as materialized (select 1 from {schema}.housekeeping for update)
         select {schema}.rotate('0', 1) from alone"
    );
    let row = session.query_one(&turn, &[]).await.map_err(|error| failed(error.to_string()))?;
    if row.get(0) { Ok(()) } else { Err(failed("the next segment is not empty".to_owned())) }
}
