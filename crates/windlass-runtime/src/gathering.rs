//! Jobs that wait until they are started together.

use crate::{
    Batching,
    epoch::{ClaimScope, Epoch},
    popped::{Gathered, Popped},
};
use std::{collections::HashMap, sync::Arc};
use tokio::{sync::Notify, time::Instant};

/// The kinds of a worker that are batched; `None` when there are none.
pub(crate) type BatchedKinds = Option<Arc<HashMap<String, Batching>>>;

/// The jobs of one kind, claimed under one registration, that will be started together.
#[derive(Debug)]
struct Gathering {
    kind: Arc<str>,
    epoch: Arc<Epoch>,
    batching: Batching,
    jobs: Vec<Gathered>,
    /// When it is started even if it is not full; `None` when that is never.
    due: Option<Instant>,
}

impl Gathering {
    fn is_full(&self) -> bool {
        self.jobs.len() >= self.batching.most()
    }

    fn may_start(&self, now: Instant) -> bool {
        self.is_full() || self.due.is_some_and(|due| due <= now)
    }

    /// Since when it may start, or from when on.
    fn since(&self) -> Option<Instant> {
        let last = self.jobs.last().filter(|_| self.is_full()).map(|job| job.scope.asked_at());
        last.into_iter().chain(self.due).min()
    }
}

/// The batches of one queue that come together.
#[derive(Debug)]
pub(crate) struct Gatherings {
    kinds: Arc<HashMap<String, Batching>>,
    open: Vec<Gathering>,
    jobs: usize,
    /// The size of the batch that was started last, until a job comes that is not batched.
    last: usize,
    /// The sleeping executor that will look when a batch is due, and when.
    alarm: Option<(Instant, Arc<Notify>)>,
}

impl Gatherings {
    pub(crate) fn new(kinds: Arc<HashMap<String, Batching>>) -> Self {
        Self { kinds, open: Vec::new(), jobs: 0, last: 0, alarm: None }
    }

    /// How many jobs wait.
    pub(crate) fn len(&self) -> usize {
        self.jobs
    }

    /// How many of them may be started now.
    pub(crate) fn startable(&self, now: Instant) -> usize {
        self.open.iter().filter(|open| open.may_start(now)).map(|open| open.jobs.len()).sum()
    }

    /// What those cost, in the order in which they are taken.
    pub(crate) fn costs(&self, now: Instant) -> impl Iterator<Item = u32> {
        let startable = self.open.iter().filter(move |open| open.may_start(now));
        startable.flat_map(|open| &open.jobs).map(|job| job.popped.job.cost())
    }

    /// How many jobs more are good for batches that come together, or for the next of the kind that came last.
    pub(crate) fn missing(&self) -> usize {
        match self.open.is_empty() {
            true => self.last,
            false => self.open.iter().map(|open| open.batching.most().saturating_sub(open.jobs.len())).sum(),
        }
    }

    /// The largest batch that there is reason to expect.
    pub(crate) fn largest(&self) -> usize {
        let open = self.open.iter().map(|open| open.batching.most());
        open.chain([self.last]).max().unwrap_or(0).max(1)
    }

    /// Whether a job of this kind and registration joins a batch now: it has one, and that is not full.
    pub(crate) fn takes(&self, kind: &str, epoch: &Arc<Epoch>) -> bool {
        let full = self.find(kind, epoch).is_some_and(|at| self.open[at].is_full());
        !full && self.kinds.contains_key(kind)
    }

    fn find(&self, kind: &str, epoch: &Arc<Epoch>) -> Option<usize> {
        self.open.iter().position(|open| *open.kind == *kind && Arc::ptr_eq(&open.epoch, epoch))
    }

    /// Adds a job, which it [takes](Self::takes).
    pub(crate) fn add(&mut self, scope: Arc<ClaimScope>, popped: Popped) {
        let kind = &popped.job.kind;
        let at = self.find(kind, &scope.epoch).unwrap_or_else(|| {
            let batching = self.kinds[&**kind];
            self.open.push(Gathering {
                kind: Arc::clone(kind),
                epoch: Arc::clone(&scope.epoch),
                batching,
                jobs: Vec::new(),
                due: scope.asked_at().checked_add(batching.wait()),
            });
            self.open.len() - 1
        });
        self.open[at].jobs.push(Gathered { scope, popped });
        self.jobs += 1;
    }

    /// A job came that is not batched: where none waits for its batch, jobs need not be fetched ahead for one.
    pub(crate) fn note_other(&mut self) {
        self.last = 0;
    }

    /// The oldest batch that may start: its place, and its jobs.
    pub(crate) fn due(&self, now: Instant) -> Option<(usize, &[Gathered])> {
        let at = self.open.iter().position(|open| open.may_start(now))?;
        Some((at, &self.open[at].jobs))
    }

    /// The batch at that place, or so much of it. What is left of it waits again: the limits that hold it back would make
    /// batches of one out of it.
    pub(crate) fn take(&mut self, at: usize, most: usize) -> Vec<Gathered> {
        let open = &mut self.open[at];
        self.last = open.batching.most();
        let jobs = match open.jobs.len() <= most {
            true => self.open.remove(at).jobs,
            false => {
                open.due = Instant::now().checked_add(open.batching.wait());
                open.jobs.drain(..most).collect()
            }
        };
        self.jobs -= jobs.len();
        jobs
    }

    /// Lets the oldest batch start now.
    #[cfg(feature = "testing")]
    pub(crate) fn make_due(&mut self) {
        self.open.first_mut().into_iter().for_each(|open| open.due = Some(Instant::now()));
    }

    /// Takes out the jobs of those claims.
    pub(crate) fn remove(&mut self, goes: impl Fn(&ClaimScope) -> bool) -> Vec<Gathered> {
        let mut gone = Vec::new();
        for open in &mut self.open {
            gone.extend(open.jobs.extract_if(.., |job| goes(&job.scope)));
        }
        self.open.retain(|open| !open.jobs.is_empty());
        self.jobs -= gone.len();
        gone
    }

    /// Since when the first may start, or from when on.
    pub(crate) fn startable_since(&self) -> Option<Instant> {
        self.open.iter().filter_map(Gathering::since).min()
    }

    /// Takes out the batches that could start by then.
    pub(crate) fn remove_since(&mut self, then: Instant) -> Vec<Gathered> {
        let waited = |open: &mut Gathering| open.since().is_some_and(|since| since <= then);
        let gone: Vec<_> = self.open.extract_if(.., waited).flat_map(|open| open.jobs).collect();
        self.jobs -= gone.len();
        gone
    }

    /// When an executor should look, unless one will by then.
    pub(crate) fn alarm_due(&self, now: Instant) -> Option<Instant> {
        // What is due already waits for its limits or for an executor, both of which look by themselves.
        let waiting = self.open.iter().filter(|open| !open.may_start(now));
        let next = waiting.filter_map(|open| open.due).min()?;
        let is_set = self.alarm.as_ref().is_some_and(|(at, _)| *at <= next);
        (!is_set).then_some(next)
    }

    /// This executor sleeps, and will look then.
    pub(crate) fn set_alarm(&mut self, at: Instant, sleeper: &Arc<Notify>) {
        self.alarm = Some((at, Arc::clone(sleeper)));
    }

    /// This executor does not sleep any more.
    pub(crate) fn forget_alarm(&mut self, sleeper: &Arc<Notify>) {
        self.alarm.take_if(|(_, known)| Arc::ptr_eq(known, sleeper));
    }
}
