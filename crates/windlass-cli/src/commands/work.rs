mod exec;
mod queue_option;
mod tail;
mod until_empty;

use crate::{duration, failure::Outcome, globals::Globals, open};
use exec::Program;
use queue_option::QueueOption;
use serde_json::json;
use std::{future::pending, sync::Arc, time::Duration};
use windlass::{Client, Context, NewJob, RawJob, Worker, WorkerBuilder, WorkerStats};

/// How to work jobs by running a program for each.
///
/// The program gets the job's args as JSON on stdin, and WINDLASS_JOB_ID, WINDLASS_KIND, WINDLASS_QUEUE,
/// WINDLASS_ATTEMPT and WINDLASS_MAX_ATTEMPTS. Exit code 0 completes the job, 65 discards it, 75 puts it
/// off for a minute without using up an attempt; anything else is a failure, and the end of stderr is kept
/// as its error. Its stdout goes to stderr here. The program runs in a process group of its own: when it has to stop, all of the group
/// gets SIGTERM and, 5 seconds later, SIGKILL.
#[derive(clap::Args)]
pub(crate) struct Work {
    /// The program, as the shell reads it: run by sh -c
    #[arg(long, value_name = "CMD")]
    exec: String,
    /// A queue to take jobs from, and how many of its jobs run at once; may be repeated. Default: default
    #[arg(long = "queue", value_name = "NAME[=CONCURRENCY]")]
    queues: Vec<QueueOption>,
    /// Takes only jobs of this kind, the others wait for another worker; may be repeated. Default: any
    #[arg(long = "kind")]
    kinds: Vec<String>,
    /// How many jobs of each queue run at once that does not say
    #[arg(long, default_value_t = WorkerBuilder::DEFAULT_CONCURRENCY)]
    concurrency: usize,
    /// Stops a program that runs longer than this; the attempt failed
    #[arg(long, value_parser = duration::parse)]
    timeout: Option<Duration>,
    /// How long this worker may be silent before others take its jobs
    #[arg(long, value_parser = duration::parse, default_value = "30s")]
    lease: Duration,
    /// How long running programs may go on after the first SIGTERM or SIGINT; a second one stops them now
    #[arg(long, value_parser = duration::parse, default_value = "30s")]
    grace_period: Duration,
    /// Stops when nothing is available any more
    #[arg(long, visible_alias = "drain")]
    until_empty: bool,
}

impl Work {
    pub(crate) async fn run(self, globals: &Globals) -> Outcome {
        let client = open::create(globals.url()).await?;
        let worker = self.builder(&client).start().await?;
        let queues: Vec<_> = self.queues().map(|queue| queue.0).collect();
        let emptied = async {
            match self.until_empty {
                true => until_empty::wait(&client, &worker, &queues, &self.kinds).await,
                false => pending().await,
            }
        };
        let running = worker.run_until_signal();
        tokio::pin!(running);
        tokio::select! {
            ended = &mut running => ended?,
            emptied = emptied => {
                worker.stop();
                running.await?;
                emptied?;
            }
        }
        let stats = worker.stats();
        client.close().await;
        report(globals, &stats)
    }

    fn queues(&self) -> impl Iterator<Item = (String, usize)> {
        let default = QueueOption { name: NewJob::DEFAULT_QUEUE.to_owned(), concurrency: None };
        let default = self.queues.is_empty().then_some(default);
        let queues = self.queues.clone().into_iter().chain(default);
        queues.map(|queue| (queue.name, queue.concurrency.unwrap_or(self.concurrency)))
    }

    fn builder(&self, client: &Client) -> WorkerBuilder {
        let program = Arc::new(Program { command: self.exec.clone(), timeout: self.timeout });
        let handler = move |job: RawJob, context: Context| {
            let program = Arc::clone(&program);
            async move { program.run(job.bytes().clone(), context).await }
        };
        let mut builder = Worker::builder(client).lease(self.lease).grace_period(self.grace_period);
        for (queue, concurrency) in self.queues() {
            builder = builder.queue(queue, concurrency);
        }
        match self.kinds.is_empty() {
            true => builder.handle_any(handler),
            false => self.kinds.iter().fold(builder, |b, kind| b.handle_kind(kind, handler.clone())),
        }
    }
}

fn report(globals: &Globals, stats: &WorkerStats) -> Outcome {
    let answer = json!({
        "claimed": stats.claimed,
        "completed": stats.completed,
        "retried": stats.retried,
        "snoozed": stats.snoozed,
        "discarded": stats.discarded,
        "no_handler": stats.no_handler,
        "returned": stats.returned,
    });
    globals.print(&answer, || {
        format!(
            "jobs taken: {}; {} completed, {} to be retried, {} put off, {} discarded, {} handed back",
            stats.claimed,
            stats.completed,
            stats.retried,
            stats.snoozed,
            stats.discarded,
            stats.no_handler + stats.returned
        )
    })
}
