mod lent;
pub(crate) mod running;

use crate::{
    batch_run::run_batch,
    core::Core,
    epoch::ClaimScope,
    last_handler::LastHandler,
    queue_runner::QueueRunner,
    sync::spawn,
    turn::{Activation, Done, Step, Turn},
};
use lent::{Lot, lends};
use running::{Begun, Running, begin};
use std::{
    future::poll_fn,
    sync::Arc,
    task::{self, Poll, ready},
};
use tokio::{sync::Notify, task::coop, time::Instant};

/// Wakes or starts an executor.
pub(crate) fn activate(core: &Arc<Core>, runner: &Arc<QueueRunner>, activation: Option<Activation>) {
    match activation {
        None => {}
        Some(Activation::Wake(sleeper)) => sleeper.notify_one(),
        Some(Activation::Spawn) => {
            spawn(execute(Arc::clone(core), Arc::clone(runner)));
        }
    }
}

/// One of a queue's `concurrency` executors: takes a job, runs it, hands in its result with the same
/// lock with which it takes the next, or waits first until the result is settled ([`crate::Settling`]).
async fn execute(core: Arc<Core>, runner: Arc<QueueRunner>) {
    let mut executor = Executor::new(core, runner);
    loop {
        let next = poll_fn(|cx| executor.run_ready(cx)).await;
        let (core, runner, me) = (&executor.core, &executor.runner, &executor.me);
        match next {
            Next::Running(running) => executor.done = Some(running.end(core, runner).await),
            Next::Step(Step::Settle(settled)) => {
                tokio::select! {
                    biased;
                    // An error means that the settlement was given up: its jobs run again elsewhere.
                    _ = settled => {}
                    () = core.switches.ended.cancelled() => return,
                }
                runner.resumes();
            }
            Next::Step(Step::RunBatch(batch)) => {
                tokio::task::consume_budget().await;
                let waits = || activate(core, runner, runner.waits());
                let jobs = run_batch(core, runner, &mut executor.handlers, batch, waits).await;
                if !hand_in(core, runner, jobs).await {
                    return;
                }
            }
            Next::Step(Step::Sleep) => me.notified().await,
            Next::Step(Step::SleepUntil(due)) => sleep_until(runner, me, due).await,
            Next::Step(Step::Exit | Step::Run(_)) => return,
        }
    }
}

/// An executor between two waits.
struct Executor {
    core: Arc<Core>,
    runner: Arc<QueueRunner>,
    me: Arc<Notify>,
    /// Of its last job.
    scope: Option<Arc<ClaimScope>>,
    handlers: LastHandler,
    /// To be handed in.
    done: Option<Done>,
    lot: Lot,
}

/// What an executor waits for.
enum Next {
    Running(Box<Running>),
    /// Any but [`Step::Run`].
    Step(Step),
}

impl Executor {
    fn new(core: Arc<Core>, runner: Arc<QueueRunner>) -> Self {
        let (me, handlers, lot) = (Arc::new(Notify::new()), LastHandler::default(), Lot::default());
        Self { core, runner, me, scope: None, handlers, done: None, lot }
    }

    /// Runs jobs as long as none waits for anything. No async code: what is carried from job to job stays where it is, instead of being moved
    /// into and out of futures, which took as long as SQLite takes for reading a job.
    fn run_ready(&mut self, cx: &mut task::Context<'_>) -> Poll<Next> {
        loop {
            if self.done.is_some() {
                // Jobs that never wait must not keep the claimer and the settler from the thread.
                ready!(coop::poll_proceed(cx)).made_progress();
            }
            let mut turn = self.runner.turn(self.done.take(), &mut self.scope, &self.me);
            follow_up(&self.core, &self.runner, &mut turn);
            let popped = match turn.step {
                Step::Run(popped) => popped,
                step => {
                    self.lot.offer();
                    return Poll::Ready(Next::Step(step));
                }
            };
            let Some(scope) = &self.scope else { continue };
            let found = self.handlers.find(&self.core, &popped.job.kind);
            if let Ok(Some(found)) = &found
                && let Some(lender) = lends(&self.core, scope, found, &popped.job)
            {
                self.lot.take(&self.core, &self.runner, scope, found, lender, popped);
                if self.lot.is_full() {
                    self.lot.offer();
                    ready!(coop::poll_proceed(cx)).made_progress();
                }
                continue;
            }
            self.lot.offer();
            match begin(&self.core, scope, found, popped, cx) {
                Begun::Over(done) => self.done = Some(done),
                Begun::Running(running) => return Poll::Ready(Next::Running(running)),
            }
        }
    }
}

/// Hands in the results of a batch. Whether the worker goes on.
async fn hand_in(core: &Arc<Core>, runner: &QueueRunner, jobs: Vec<Done>) -> bool {
    let handed_in = runner.finish_batch(jobs);
    handed_in.tell(&core.signals);
    let strict = !handed_in.settled.is_empty();
    for settled in handed_in.settled {
        tokio::select! {
            biased;
            _ = settled => {}
            () = core.switches.ended.cancelled() => return false,
        }
    }
    if strict {
        runner.resumes();
    }
    true
}

/// Sleeps until somebody wakes this executor, or a batch is due.
async fn sleep_until(runner: &QueueRunner, me: &Arc<Notify>, due: Instant) {
    tokio::select! {
        biased;
        () = me.notified() => return,
        () = tokio::time::sleep_until(due) => {}
    }
    if !runner.wakes_by_itself(me) {
        me.notified().await;
    }
}

/// Tells those whom a turn concerns.
fn follow_up(core: &Arc<Core>, runner: &Arc<QueueRunner>, turn: &mut Turn) {
    if let Some(whole_claim) = turn.tell_settler {
        core.signals.finished(whole_claim);
    }
    if turn.tell_claimer {
        core.signals.wake_claimer();
    }
    if turn.tell_sharer {
        core.signals.wake_sharer();
    }
    if turn.became_idle {
        core.signals.became_idle();
    }
    activate(core, runner, turn.activation.take());
}
