use super::{Gate, Order, Task, Work, connect, dismissed, task::Act, watch};
use crate::{
    bug, database,
    history::{Outcome as Ended, Recorder, Tick, What},
};
use anyhow::Result;
use std::{sync::Arc, time::Duration};
use windlass::{Args, Client, Context, Outcome, RawJob, RetryPolicy, Settings, Worker};

/// The kinds of a run's jobs.
const KIND: &str = "work";
const RARE: &str = "rare";
/// A run has no time for backoff.
const RETRIES: RetryPolicy = RetryPolicy::fixed(Duration::from_millis(30));

pub(super) async fn run(order: &Order, work: Work, recorder: Arc<Recorder>) -> Result<()> {
    let client = connect(&order.store).await?;
    let store = watch::watched(order, &work, Arc::clone(client.store()), &recorder);
    let gate = Gate::of(order.history.parent().unwrap_or(&order.history));
    let desk = Arc::new(Desk { recorder, client, store: order.store.clone(), gate });
    let worker = start(&Client::from_store(store), order, work, &desk).await?;
    tokio::select! {
        ended = worker.run_until_signal() => ended?,
        () = dismissed() => worker.shutdown().await,
    }
    Ok(())
}

async fn start(client: &Client, order: &Order, work: Work, desk: &Arc<Desk>) -> Result<Worker> {
    if let Some(seconds) = work.retention_s {
        let settings =
            Settings::DEFAULT.with_retention(Duration::from_secs(seconds)).with_segment_bytes(4 << 20);
        client.configure(&settings).await?;
    }
    let mut slots = work.slots;
    if order.bug == Some(bug::Bug::TooManySlots) {
        slots *= 2;
    }
    loop {
        let mut builder = Worker::builder(client)
            .name(format!("chaos-{}", order.number))
            .lease(Duration::from_millis(work.lease_ms))
            .grace_period(Duration::from_millis(work.grace_ms))
            .retry_policy(RETRIES);
        for queue in &work.queues {
            builder = builder.queue(queue.clone(), slots);
        }
        let of = |desk: &Arc<Desk>| {
            let desk = Arc::clone(desk);
            move |job: RawJob, ctx: Context| handle(Arc::clone(&desk), job, ctx)
        };
        builder = builder.handle_kind(KIND, of(desk));
        if work.knows_rare {
            builder = builder.handle_kind(RARE, of(desk));
        }
        let timetable = work.timetable;
        builder = builder.schedules(timetable.numbers().map(|number| timetable.schedule(number)));
        match builder.start().await {
            Ok(worker) => return Ok(worker),
            // A service manager would start it again.
            Err(error) if error.is_connection_loss() => tokio::time::sleep(Duration::from_millis(50)).await,
            Err(error) => return Err(error.into()),
        }
    }
}

/// How many checkpoints an attempt keeps.
const STEPS: u32 = 2;

/// The result of jobs that have one.
#[derive(serde::Serialize)]
struct Returned {
    key: i64,
}

/// What handlers work with.
struct Desk {
    recorder: Arc<Recorder>,
    /// The store without a witness: completions inside transactions are noted by the handler.
    client: Client,
    store: String,
    gate: Gate,
}

/// Notes the end of a handler, also of one whose future is dropped or that panics.
struct Ending {
    recorder: Arc<Recorder>,
    worker: i32,
    id: i64,
    seq: i64,
    outcome: Option<Ended>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let otherwise = if std::thread::panicking() { Ended::Retry } else { Ended::Interrupted };
        let outcome = self.outcome.unwrap_or(otherwise);
        self.recorder.note(What::Finished { worker: self.worker, id: self.id, seq: self.seq, outcome });
    }
}

async fn handle(desk: Arc<Desk>, job: RawJob, ctx: Context) -> Outcome {
    let lease = ctx.lease();
    let (worker, id, seq) = (lease.worker.0, lease.job.0, lease.claim.1.cast_signed());
    let task: Task = match job.parse() {
        Ok(task) => task,
        Err(error) => return Outcome::Discard(format!("not a task: {error}")),
    };
    let key = Tick::key_in(task.key, ctx.meta().map(Args::as_str));
    desk.recorder.note(What::Started { worker, id, seq, key, attempt: ctx.attempt() });
    let mut ending = Ending { recorder: Arc::clone(&desk.recorder), worker, id, seq, outcome: None };
    let outcome = match task.act {
        Act::Effect(ms) => effect(&desk, &ctx, Duration::from_millis(ms)).await,
        Act::Return => {
            desk.recorder.note(What::Returned { worker, id, seq });
            Outcome::Complete(Some(Args::of(&Returned { key }).expect("a result is JSON")))
        }
        Act::Checkpoint(times) => match keep_checkpoints(&desk, &ctx).await {
            Ok(()) if ctx.attempt() > times => Outcome::Complete(None),
            Ok(()) => Outcome::Retry { after: None, error: "goes on from its checkpoint".to_owned() },
            Err(error) => Outcome::Retry { after: None, error: error.to_string() },
        },
        Act::Gate => match desk.gate.pass(id).await {
            Ok(()) => Outcome::Complete(None),
            Err(error) => Outcome::Retry { after: None, error: format!("the gate: {error}") },
        },
        other => act(other, &ctx).await,
    };
    ending.outcome = Some(match &outcome {
        Outcome::Retry { .. } => Ended::Retry,
        Outcome::Snooze(_) => Ended::Snooze,
        Outcome::Cancel(_) => Ended::Cancel,
        Outcome::Discard(_) => Ended::Discard,
        _ => Ended::Complete,
    });
    outcome
}

/// Goes on from the last checkpoint, and says how far it is.
async fn keep_checkpoints(desk: &Desk, ctx: &Context) -> windlass::Result<()> {
    let lease = ctx.lease();
    let (worker, id, seq) = (lease.worker.0, lease.job.0, lease.claim.1.cast_signed());
    let from = ctx.last_checkpoint::<u32>().await?.unwrap_or(0);
    desk.recorder.note(What::Resumed { worker, id, seq, from });
    for value in from + 1..=from + STEPS {
        ctx.progress(f64::from(value % 100))?;
        desk.recorder.note(What::CheckpointSent { worker, id, seq, value });
        ctx.checkpoint(&value).await?;
        desk.recorder.note(What::CheckpointKept { worker, id, seq, value });
    }
    Ok(())
}

async fn act(act: Act, ctx: &Context) -> Outcome {
    let millis = Duration::from_millis;
    match act {
        Act::Sleep(ms) => tokio::time::sleep(millis(ms)).await,
        Act::Fail(times) if ctx.attempt() <= times => {
            return Outcome::Retry {
                after: None,
                error: format!("attempt {} fails on request", ctx.attempt()),
            };
        }
        Act::Panic if ctx.attempt() == 1 => panic!("panics on request"),
        Act::Snooze(ms) if jiff::Timestamp::now().duration_since(ctx.enqueued_at()) < millis_of(ms) => {
            return Outcome::Snooze(millis(20));
        }
        Act::Cancel => return Outcome::Cancel("on request".to_owned()),
        Act::Discard => return Outcome::Discard("on request".to_owned()),
        Act::Abort(times) if ctx.crash_count() < times => std::process::abort(),
        Act::Allocate => {
            let mut hoard: Vec<Vec<u8>> = Vec::new();
            // Touched, so that it counts; ends by the cap of the process, or at a bound of our own.
            for _ in 0..4_096 {
                hoard.push(vec![1; 1 << 20]);
            }
            return Outcome::Discard(format!("{} MiB were to be had: this process has no cap", hoard.len()));
        }
        _ => {}
    }
    Outcome::Complete(None)
}

/// The effect and the completion in one transaction; whatever goes wrong, the job is tried again, and the
/// store knows whether it was done.
async fn effect(desk: &Desk, ctx: &Context, open_for: Duration) -> Outcome {
    let done = async {
        let mut database = database::connect(&desk.store).await?;
        let transaction = database.transaction().await?;
        transaction.execute("INSERT INTO public.chaos_effect (job) VALUES ($1)", &[&ctx.id().0]).await?;
        desk.client.complete_in(&transaction, ctx).await?;
        tokio::time::sleep(open_for).await;
        let lease = ctx.lease();
        desk.recorder.note(What::EffectSent {
            worker: lease.worker.0,
            id: lease.job.0,
            seq: lease.claim.1.cast_signed(),
        });
        transaction.commit().await?;
        anyhow::Ok(())
    };
    match done.await {
        Ok(()) => Outcome::Complete(None),
        Err(error) => Outcome::Retry { after: None, error: format!("{error:#}") },
    }
}

fn millis_of(ms: u64) -> jiff::SignedDuration {
    jiff::SignedDuration::from_millis(i64::try_from(ms).unwrap_or(i64::MAX))
}
