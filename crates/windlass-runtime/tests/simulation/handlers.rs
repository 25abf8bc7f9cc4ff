use crate::{
    fake::history::{End, What},
    process::Process,
    scenario::{KILLER, PLAIN, PROBE, RARE},
};
use std::{future::poll_fn, panic::resume_unwind, sync::Arc, task::Poll, time::Duration};
use tokio::time::sleep;
use windlass_core::Outcome;
use windlass_runtime::{Context, Dispatch, Handler, HandlerFuture, caught, lend::Lender};

/// One in so many plain jobs counts its runs by checkpoints.
const COUNTED: i64 = 3;

/// What the handler of a job does.
#[derive(Clone, Debug)]
pub struct Script {
    pub wait: Wait,
    /// By run; the last one again and again.
    pub acts: Vec<Act>,
}

#[derive(Clone, Copy, Debug)]
pub enum Wait {
    None,
    Yield(usize),
    Sleep(Duration),
    /// Stops when it is told to, with an error.
    Politely(Duration),
    /// Never listens.
    Stubbornly(Duration),
    /// Until all slots are taken at the same time.
    Barrier,
}

#[derive(Clone, Copy, Debug)]
pub enum Act {
    Complete,
    Fail(Option<Duration>),
    Panic,
    /// Before there is a future.
    PanicAtOnce,
    Snooze(Duration),
    Cancel,
    Discard,
    /// Takes the process down.
    Kill,
}

/// The handlers of one process.
pub struct Handlers {
    pub process: Arc<Process>,
    pub knows_rare: bool,
    /// Who runs the jobs, unless their handlers do.
    pub lender: Option<Lender>,
}

impl Dispatch for Handlers {
    fn kinds(&self) -> Vec<String> {
        let rare = self.knows_rare.then_some(RARE);
        [PLAIN, KILLER, PROBE].into_iter().chain(rare).map(str::to_owned).collect()
    }

    fn find(&self, kind: &str) -> Option<Arc<dyn Handler>> {
        let known = kind != RARE || self.knows_rare;
        known.then(|| match &self.lender {
            Some(lender) => Arc::new(lender.clone()) as Arc<dyn Handler>,
            None => Arc::new(Scripted(Arc::clone(&self.process))),
        })
    }
}

/// Runs a job as foreign code: a panic is a failure there, too.
pub fn run_lent(process: &Arc<Process>, context: Context) -> HandlerFuture {
    let scripted = Scripted(Arc::clone(process));
    let failed = |error| Outcome::Retry { after: None, error };
    let mut running = match caught(|| scripted.call(bytes::Bytes::new(), context)) {
        Ok(running) => running,
        Err(panic) => return Box::pin(async move { failed(panic) }),
    };
    Box::pin(poll_fn(move |cx| match caught(|| running.as_mut().poll(cx)) {
        Ok(polled) => polled,
        Err(panic) => Poll::Ready(failed(panic)),
    }))
}

struct Scripted(Arc<Process>);

impl Handler for Scripted {
    fn call(&self, _: bytes::Bytes, context: Context) -> HandlerFuture {
        let process = Arc::clone(&self.0);
        let mut run = Run::begin(&process, context);
        let (wait, act) = process.world.script(run.context.id());
        if matches!(act, Act::PanicAtOnce) {
            run.end(End::Failed);
            drop(run);
            resume_unwind(Box::new("at once"));
        }
        Box::pin(async move {
            let told = tokio::select! {
                biased;
                () = run.context.cancelled() => false,
                () = run.count() => false,
            } || run.wait(wait).await;
            run.act(if told { Act::Fail(None) } else { act }).await
        })
    }
}

/// One run of a handler; notes that it was dropped when it did not end.
struct Run {
    process: Arc<Process>,
    context: Context,
    ended: bool,
}

impl Run {
    fn begin(process: &Arc<Process>, context: Context) -> Self {
        process.begin(&context);
        Self { process: Arc::clone(process), context, ended: false }
    }

    fn end(&mut self, end: End) {
        self.ended = true;
        let (lease, cancelled) = (self.context.lease().into(), self.context.is_cancelled());
        self.process.world.ran(self.context.id());
        self.process.note(What::Finished { lease, end, cancelled });
    }

    /// Counts the runs of some jobs by their checkpoints: what was kept for sure is there for every run that begins later.
    async fn count(&self) {
        let (world, job) = (&self.process.world, self.context.id());
        if self.context.kind() != PLAIN || job.0 % COUNTED != 0 {
            return;
        }
        let kept = world.kept(job);
        let Ok(last) = self.context.last_checkpoint::<u64>().await else { return };
        let last = last.unwrap_or(0);
        if last < kept {
            let words = format!("job {job} kept checkpoint {kept}, and a later run got {last}");
            world.store.lock().violate(words);
        }
        self.context.log(format!("run {last}"));
        if self.context.checkpoint(&(last + 1)).await.is_ok() {
            world.keep(job, last + 1);
        }
    }

    /// Whether it was told to stop, and does.
    async fn wait(&self, wait: Wait) -> bool {
        match wait {
            Wait::None => {}
            Wait::Yield(times) => {
                for _ in 0..times {
                    tokio::task::yield_now().await;
                }
            }
            Wait::Sleep(time) | Wait::Stubbornly(time) => sleep(time).await,
            Wait::Politely(time) => {
                tokio::select! {
                    biased;
                    () = self.context.cancelled() => return true,
                    () = sleep(time) => {}
                }
            }
            Wait::Barrier => self.process.world.barrier(self.context.queue()).await,
        }
        false
    }

    async fn act(mut self, act: Act) -> Outcome {
        let error = || "as the script says".to_owned();
        let (end, outcome) = match act {
            Act::Complete => (End::Completed, Outcome::Complete(None)),
            Act::Fail(after) => (End::Failed, Outcome::Retry { after, error: error() }),
            Act::Panic | Act::PanicAtOnce => {
                self.end(End::Failed);
                drop(self);
                resume_unwind(Box::new("later"));
            }
            Act::Snooze(delay) => (End::Snoozed, Outcome::Snooze(delay)),
            Act::Cancel => (End::Cancelled, Outcome::Cancel(error())),
            Act::Discard => (End::Discarded, Outcome::Discard(error())),
            Act::Kill => {
                self.process.kill();
                std::future::pending().await
            }
        };
        self.end(end);
        outcome
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if !self.ended {
            let (lease, cancelled) = (self.context.lease().into(), self.context.is_cancelled());
            self.process.note(What::Finished { lease, end: End::Dropped, cancelled });
        }
        self.process.end(&self.context);
    }
}
