//! The cases: what can be measured, each with its options.

mod burst;
mod cancel;
mod drain;
mod effects;
mod enqueue;
mod events;
mod keys;
mod latency;
mod limit;
mod limited;
mod mixed;
mod schedules;
mod size;
mod startup;
mod unique;
mod waiters;
mod work;

use crate::{
    clean_up::clean_up, finding::Finding, options::QUEUE, report::Report, size::Places,
    store::without_waiting,
};
use windlass_cli::{
    failure::Outcome, globals::Globals, interrupt::until_interrupted, measure::MeasuredStore,
};

/// One measurement.
#[derive(clap::Subcommand)]
pub(crate) enum Case {
    /// How fast jobs are enqueued
    Enqueue(enqueue::Enqueue),
    /// Jobs without work: how fast a backlog is drained
    Drain(drain::Drain),
    /// Jobs that wait or calculate: how close the worker comes to the theoretical maximum
    Work(work::Work),
    /// Enqueueing and working at once
    Mixed(mixed::Mixed),
    /// From enqueue to the start of the handler
    Latency(latency::Latency),
    /// How long a worker takes to its first job, and to its end
    Startup(startup::Startup),
    /// A queue with a limit: as fast as without one, and as fast as the limit allows
    Limited(limited::Limited),
    /// Jobs with keys: turns, limits of keys, and one busy key beside a quiet one
    Keys(keys::Keys),
    /// Many jobs scheduled for one moment: how late they start
    Burst(burst::Burst),
    /// Many schedules that tick at once: how late their jobs start
    Schedules(schedules::Schedules),
    /// Jobs that run are cancelled: the call, and until the handler is told
    Cancel(cancel::Cancel),
    /// Jobs that end in the user's own transaction, with what it writes (PostgreSQL)
    Effects(effects::Effects),
    /// Jobs that race for unique keys: none doubled, none lost
    Unique(unique::UniqueKeys),
    /// Many wait for a job each: how long after its end they are told
    Waiters(waiters::Waiters),
    /// What happened to jobs: how fast it is read
    Events(events::Events),
    /// A busy queue beside a burden: many jobs, queues, workers, or large ones
    Size(size::Size),
    /// What the database does with the same rows when nothing makes a queue of them
    Limit(limit::Limit),
}

impl Case {
    /// Measures, and prints the report.
    pub(crate) async fn run(self, globals: &Globals) -> Outcome {
        let store = self.store(globals)?;
        let finding = until_interrupted(Box::pin(self.measure(globals, &store))).await;
        if finding.is_err() && !store.is_temporary() {
            self.remove_traces(globals, &store).await;
        }
        let report = Report::new(finding?, &store, globals).await?;
        drop(store);
        globals.print(&report, || report.text())
    }

    /// What was enqueued must not stay in the user's store. Another signal ends this early.
    async fn remove_traces(&self, globals: &Globals, store: &MeasuredStore) {
        match self {
            Self::Size(_) => remove_places(store).await,
            _ => remove_jobs(globals, store).await,
        }
    }

    fn store(&self, globals: &Globals) -> Outcome<MeasuredStore> {
        let store = MeasuredStore::open(globals)?;
        match self {
            Self::Drain(drain) if drain.async_commit => without_waiting(store),
            _ => Ok(store),
        }
    }

    async fn measure(&self, globals: &Globals, store: &MeasuredStore) -> Outcome<Finding> {
        match self {
            Self::Enqueue(enqueue) => enqueue.measure(globals, store).await,
            Self::Drain(drain) => drain.measure(globals, store).await,
            Self::Work(work) => work.measure(globals, store).await,
            Self::Mixed(mixed) => mixed.measure(globals, store).await,
            Self::Latency(latency) => latency.measure(globals, store).await,
            Self::Startup(startup) => startup.measure(store).await,
            Self::Limited(limited) => limited.measure(globals, store).await,
            Self::Keys(keys) => keys.measure(globals, store).await,
            Self::Burst(burst) => burst.measure(globals, store).await,
            Self::Schedules(schedules) => schedules.measure(globals, store).await,
            Self::Cancel(cancel) => cancel.measure(globals, store).await,
            Self::Effects(effects) => effects.measure(globals, store).await,
            Self::Unique(unique) => unique.measure(globals, store).await,
            Self::Waiters(waiters) => waiters.measure(globals, store).await,
            Self::Events(events) => events.measure(globals, store).await,
            Self::Size(size) => size.measure(globals, store).await,
            Self::Limit(limit) => limit.measure(store).await,
        }
    }
}

/// When they cannot be removed now, the next run does it.
async fn remove_places(store: &MeasuredStore) {
    if let Ok(places) = Places::of(store) {
        let _ = until_interrupted(places.remove()).await;
    }
}

async fn remove_jobs(globals: &Globals, store: &MeasuredStore) {
    // When the store cannot be reached, nothing can be removed now.
    if let Ok(left) = until_interrupted(clean_up(store)).await
        && left > 0
        && !globals.json
    {
        eprintln!("{left} jobs of the benchmark are left in queue {QUEUE}");
    }
}
