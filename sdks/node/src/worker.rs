use crate::{
    client::NativeClient,
    job_numbers::Names,
    lent::{Batch, batch},
    promise::{error, failure, on_a_thread, promise},
    shared::Shared,
};
use napi::{
    Env, Result, Status,
    bindgen_prelude::{Function, Object},
    threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode},
};
use napi_derive::napi;
use serde_json::json;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering};
use windlass::{Context, ErrorKind, Outcome, Progress, lend::Room};
use windlass_bridge::{Answer, Desk, Failure, Malformed, Said, Say, Worker, WorkerSpec};

/// Keeps the process alive until it is dropped. One ring may wait: the exchange that it leads to sees everything.
type Bell = ThreadsafeFunction<(), (), (), Status, false, false, 1>;

/// A worker whose jobs this thread runs.
#[napi]
pub struct NativeWorker {
    shared: Arc<Shared>,
    /// Another thread of the same worker: its end is not the worker's.
    attached: bool,
    /// Gone once the worker ended: it keeps the bell, and the bell the process.
    desk: Mutex<Option<Desk>>,
    names: Mutex<Names>,
}

/// Starts a worker: a promise of it. The bell is called when an exchange would bring something.
#[napi(catch_unwind)]
pub fn start_worker<'env>(
    env: &'env Env,
    client: &NativeClient,
    spec: String,
    bell: Function<'_, (), ()>,
) -> Result<Object<'env>> {
    let ring = ring(&bell)?;
    let client = client.inner.clone();
    on_a_thread(env, move || {
        #[cfg(not(feature = "witness"))]
        let on = &client;
        #[cfg(feature = "witness")]
        let on = &crate::watched::of(&client);
        let worker = Worker::start(on, &WorkerSpec::parse(&spec)?)?;
        let desk = worker.desk(ring)?;
        Ok(NativeWorker::new(Shared::register(client, worker), desk, false))
    })
}

/// Joins a worker of another thread, by its number, for its blocking kinds.
#[napi(catch_unwind)]
pub fn attach_worker(number: u32, bell: Function<'_, (), ()>) -> Result<NativeWorker> {
    let ring = ring(&bell)?;
    let joined = Shared::find(number).and_then(|shared| Ok((shared.worker.blocking_desk(ring)?, shared)));
    let (desk, shared) = joined.map_err(|failure| error(&failure))?;
    Ok(NativeWorker::new(shared, desk, true))
}

fn ring(bell: &Function<'_, (), ()>) -> Result<impl Fn() + Send + Sync + 'static> {
    let bell: Bell =
        bell.build_threadsafe_function::<()>().max_queue_size::<1>().callee_handled::<false>().build()?;
    Ok(move || {
        bell.call((), ThreadsafeFunctionCallMode::NonBlocking);
    })
}

impl NativeWorker {
    fn new(shared: Arc<Shared>, desk: Desk, attached: bool) -> Self {
        Self { shared, attached, desk: Mutex::new(Some(desk)), names: Mutex::default() }
    }
}

#[napi]
impl NativeWorker {
    /// By which other threads attach to it.
    #[napi(getter, catch_unwind)]
    pub fn number(&self) -> u32 {
        self.shared.number
    }

    /// Hands in what is done, and takes jobs. `done` are tickets of jobs that completed without a result; `said` are lines of the stdio
    /// protocol about the others. `None`: there is nothing, and the bell will ring.
    #[napi(catch_unwind)]
    pub fn exchange(&self, done: &[f64], said: Option<String>, jobs: u32, bytes: u32) -> Option<Batch> {
        let said = said.unwrap_or_default();
        let said = said.lines().filter_map(outcome);
        let done = done.iter().map(|ticket| (*ticket as u64, Outcome::Complete(None))).chain(said);
        let room = Room { jobs: jobs as usize, bytes: bytes as usize };
        lock(&self.desk).as_ref()?.exchange_seen(done, room, |exchange| {
            self.shared.refused.fetch_add(exchange.refused, Ordering::Relaxed);
            batch(exchange, &mut lock(&self.names))
        })
    }

    /// Says how far a job is.
    #[napi(catch_unwind)]
    pub fn progress(&self, ticket: f64, percent: f64, note: Option<String>) -> Result<()> {
        let said = self.context(ticket).and_then(|job| Ok(job.progress(Progress { percent, note })?));
        said.map_err(|failure| error(&failure))
    }

    /// Adds a line to a job's log.
    #[napi(catch_unwind)]
    pub fn log(&self, ticket: f64, text: String) -> Result<()> {
        self.context(ticket).map(|job| job.log(text)).map_err(|failure| error(&failure))
    }

    /// Keeps a value, JSON text, for the job's next attempt: a promise.
    #[napi(catch_unwind)]
    pub fn checkpoint<'env>(&self, env: &'env Env, ticket: f64, value: String) -> Result<Object<'env>> {
        promise::<String>(env, move |answer| {
            let job = self.context(ticket)?;
            self.shared.client.start_checkpoint(job, &value, move |kept| answer.settle(kept)).map(drop)
        })
    }

    /// What an earlier attempt kept: a promise of JSON text.
    #[napi(catch_unwind)]
    pub fn last_checkpoint<'env>(&self, env: &'env Env, ticket: f64) -> Result<Object<'env>> {
        promise::<String>(env, |answer| {
            let job = self.context(ticket)?;
            self.shared.client.start_last_checkpoint(job, move |kept| answer.settle(kept)).map(drop)
        })
    }

    /// The statement that completes a job in a transaction of PostgreSQL, as JSON.
    #[napi(catch_unwind)]
    pub fn complete_sql(&self, ticket: f64) -> Result<String> {
        let call = self.context(ticket).and_then(|job| self.shared.client.complete_sql(&job));
        call.map_err(|failure| error(&failure))
    }

    /// Begins a graceful shutdown.
    #[napi(catch_unwind)]
    pub fn stop(&self) {
        self.shared.worker.stop();
    }

    /// Hands running jobs back now.
    #[napi(catch_unwind)]
    pub fn abort_now(&self) {
        self.shared.worker.abort_now();
    }

    /// Whether somebody asked it to drain: it ends by itself, then.
    #[napi(catch_unwind)]
    pub fn is_draining(&self) -> bool {
        self.shared.worker.is_draining()
    }

    /// Lets go of the bell, and with it of the process. Jobs that are still run here fail.
    #[napi(catch_unwind)]
    pub fn leave(&self) {
        let desk = lock(&self.desk).take();
        drop(desk);
    }

    /// What the worker did and holds, as JSON.
    #[napi(catch_unwind)]
    pub fn stats(&self) -> String {
        let stats = self.shared.worker.stats();
        json!({
            "claimed": stats.claimed, "completed": stats.completed, "retried": stats.retried, "snoozed": stats.snoozed,
            "cancelled": stats.cancelled, "discarded": stats.discarded, "noHandler": stats.no_handler,
            "returned": stats.returned, "settled": stats.settled, "running": stats.running, "ready": stats.ready,
            "unsettled": stats.unsettled, "refused": self.shared.refused.load(Ordering::Relaxed),
        })
        .to_string()
    }

    /// Waits until nothing is available and nothing runs: a promise. For tests.
    #[napi(catch_unwind)]
    pub fn until_idle<'env>(&self, env: &'env Env) -> Result<Object<'env>> {
        promise::<()>(env, |answer| {
            self.shared.worker.start_until_idle(move |idle| answer.settle(idle)).map(drop)
        })
    }

    pub(crate) fn context(&self, ticket: f64) -> std::result::Result<Context, Failure> {
        let context = lock(&self.desk).as_ref().and_then(|desk| desk.context(ticket as u64));
        let gone = || {
            failure(
                ErrorKind::LeaseLost,
                "the job is over, or is not this worker's any more: nothing more can be said of it",
            )
        };
        context.ok_or_else(gone)
    }
}

/// When its thread is terminated: what it runs fails by the end of the desk, as that of a process that dies, and the rest goes back instead of
/// being held by a worker that nobody serves.
impl Drop for NativeWorker {
    fn drop(&mut self) {
        if !self.attached {
            self.shared.worker.abort_now();
        }
    }
}

/// What a line says became of a job. TypeScript wrote it, so only a result can be wrong: one that is no JSON to the core.
fn outcome(line: &str) -> Option<(u64, Outcome)> {
    match Said::parse(line.as_bytes()) {
        Ok(Said::OfJob(Answer { ticket, say: Say::Outcome(outcome) })) => Some((ticket, outcome)),
        Err(Malformed::OfJob { ticket, error, .. }) => {
            Some((ticket, Outcome::Discard(format!("the result cannot be stored: {error}"))))
        }
        Ok(_) | Err(_) => None,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
