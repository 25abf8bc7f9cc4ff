//! What every store's orders have in common: the setup before, the epilogue after, and the report.

use super::{
    book::{Book, Record},
    call::{Call, Names, Reply},
    limits,
    scenario::{Act, Scenario},
};
use async_trait::async_trait;
use std::sync::Arc;
use windlass_core::{JobId, WorkerId};

/// How often the epilogue claims before a job counts as one that never ends.
const MOST_DRAINS: usize = 50;
/// How many jobs the epilogue claims at once.
const DRAIN_BATCH: u32 = 100;

/// The leader that goes on when all others are gone, and the number of the job that it enqueues: those of no scenario.
const LAST_LEADER: usize = usize::MAX;
const LAST_JOB: usize = usize::MAX;

/// One caller of a store, who does one operation after the other, each committed.
#[async_trait]
pub(crate) trait Desk: Send {
    async fn register(&mut self, queue: &str, kinds: &[&str]) -> anyhow::Result<WorkerId>;

    /// Does one operation and commits it.
    async fn perform(&mut self, queue: &str, call: &Call) -> anyhow::Result<Reply>;

    /// What the store says of these jobs.
    async fn records(&mut self, ids: &[JobId]) -> anyhow::Result<Vec<Record>>;

    /// What is wrong in the store itself, beyond what it says: jobs settled twice and the like. All of these jobs
    /// have ended.
    async fn inspect(&mut self, queue: &str, ids: &[JobId]) -> anyhow::Result<Vec<String>>;
}

/// One order of one scenario, as it runs.
#[derive(Debug, Default)]
pub(crate) struct Round {
    pub(crate) book: Book,
    pub(crate) names: Names,
    /// The steps with their results.
    pub(crate) trace: Vec<String>,
}

impl Round {
    /// Registers the workers and does what the scenario's setup says.
    pub(crate) async fn begin(desk: &mut dyn Desk, scenario: &Scenario, queue: &str) -> anyhow::Result<Self> {
        let mut round =
            Self { names: Names { queue: Arc::from(queue), ..Names::default() }, ..Self::default() };
        for kinds in &scenario.workers {
            let worker = desk.register(queue, kinds).await?;
            round.book.registered(worker, kinds);
            round.names.workers.push(worker);
        }
        let mut first = 0;
        for &act in &scenario.setup {
            if let Some(call) = round.names.call(act, first) {
                round.perform(desk, &call).await?;
            }
            first += act.enqueues();
        }
        round.trace.push("setup done".into());
        Ok(round)
    }

    /// Does and commits one operation at the desk.
    pub(crate) async fn perform(&mut self, desk: &mut dyn Desk, call: &Call) -> anyhow::Result<Reply> {
        let tick = self.book.starts();
        let queue = Arc::clone(&self.names.queue);
        let reply = desk.perform(&queue, call).await?;
        self.book.answered(call, &reply, tick, false);
        self.names.learn(call, &reply);
        if reply.is_done() {
            self.book.committed(call, &reply);
        }
        self.note(&format!("{call:?} -> {reply:?}"));
        Ok(reply)
    }

    pub(crate) fn note(&mut self, line: &str) {
        self.trace.push(line.chars().take(600).collect());
    }

    /// Lets everything come to its end and checks the whole: every job ends once, as the book says.
    pub(crate) async fn finish(mut self, desk: &mut dyn Desk) -> anyhow::Result<(Vec<String>, Vec<String>)> {
        let queue = Arc::clone(&self.names.queue);
        self.trace.push("epilogue:".into());
        let records = desk.records(&self.book.ids()).await?;
        self.book.compare("after the sessions", &records);
        for worker in self.book.live_workers() {
            self.perform(desk, &Call::Expire(worker)).await?;
            let reply = self.perform(desk, &Call::Rescue(worker)).await?;
            if !matches!(reply, Reply::Ended(ended) if ended.contains(&worker)) {
                self.book.blame(format!("worker {worker} is dead and nobody can take its jobs"));
            }
        }
        self.fire_once_more(desk).await?;
        self.drain(desk).await?;
        let records = desk.records(&self.book.ids()).await?;
        self.book.compare("in the end", &records);
        self.book.must_be_over();
        for wrong in desk.inspect(&queue, &self.book.ids()).await? {
            self.book.blame(wrong);
        }
        Ok((self.book.into_wrong(), self.trace))
    }

    /// Whatever leaders did, the next one goes on from there.
    async fn fire_once_more(&mut self, desk: &mut dyn Desk) -> anyhow::Result<()> {
        if self.book.may_fire() {
            self.perform(desk, &Call::Look(LAST_LEADER)).await?;
            if let Some(call) = self.names.call(Act::Fire(LAST_LEADER), LAST_JOB) {
                let reply = self.perform(desk, &call).await?;
                if !matches!(reply, Reply::Fired(Some(_))) {
                    self.book.blame(format!("the schedule is stuck: {reply:?}"));
                }
            }
        }
        Ok(())
    }

    /// When nobody else is there, a limit admits as many as it says.
    async fn take_every_slot(&mut self, desk: &mut dyn Desk, worker: WorkerId) -> anyhow::Result<()> {
        if let Some(limit) = self.book.queue_limit() {
            let request = limits::share(&self.names.queue, worker, 0, DRAIN_BATCH);
            let reply = self.perform(desk, &Call::Share(request)).await?;
            if !matches!(&reply, Reply::Shared(Some(share)) if share.slots == Some(limit)) {
                self.book.blame(format!("of {limit} slots the only worker gets {reply:?}"));
            }
        }
        Ok(())
    }

    async fn drain(&mut self, desk: &mut dyn Desk) -> anyhow::Result<()> {
        let queue = Arc::clone(&self.names.queue);
        let worker = desk.register(&queue, &[]).await?;
        self.book.registered(worker, &[]);
        self.take_every_slot(desk, worker).await?;
        for _ in 0..MOST_DRAINS {
            let promoted = self.perform(desk, &Call::Promote).await?;
            self.names.handed.remove(&worker);
            self.perform(desk, &Call::Claim { worker, limit: DRAIN_BATCH }).await?;
            let number = self.names.workers.len();
            self.names.workers.push(worker);
            let settle = self.names.call(Act::CompleteRest(number), 0);
            self.names.workers.pop();
            match settle {
                Some(settle) => {
                    self.perform(desk, &settle).await?;
                }
                None if matches!(promoted, Reply::Promoted(0)) => break,
                None => {}
            }
        }
        self.perform(desk, &Call::Deregister(worker)).await?;
        Ok(())
    }
}

impl Act {
    /// How many jobs it enqueues.
    pub(crate) fn enqueues(self) -> usize {
        match self {
            Self::Enqueue(count, _) | Self::EnqueueOnce(count, _) => count,
            Self::Unique(keys, _) | Self::Keyed(keys) => keys.len(),
            Self::Fire(_) => 1,
            _ => 0,
        }
    }
}

/// The number of the first job that each operation of each session enqueues.
pub(crate) fn first_jobs(scenario: &Scenario) -> Vec<Vec<usize>> {
    let mut next: usize = scenario.setup.iter().map(|act| act.enqueues()).sum();
    let number = |ops: &Vec<super::scenario::Op>| {
        ops.iter()
            .map(|op| {
                next += op.act.enqueues();
                next - op.act.enqueues()
            })
            .collect()
    };
    scenario.sessions.iter().map(number).collect()
}
