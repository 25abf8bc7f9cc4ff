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

/// How much may start together where the queue has limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Most {
    pub(crate) jobs: usize,
    /// What they cost.
    pub(crate) cost: u32,
}

impl Most {
    /// Of a queue without limits.
    pub(crate) const ANY: Self = Self { jobs: usize::MAX, cost: u32::MAX };
}

/// The jobs of one kind, claimed under one registration, that will be started together.
#[derive(Debug)]
struct Gathering {
    kind: Arc<str>,
    epoch: Arc<Epoch>,
    batching: Batching,
    jobs: Vec<Gathered>,
    /// What they cost.
    cost: u64,
    /// When it is started even if it is not full; `None` when that is never.
    due: Option<Instant>,
    /// For how many of its jobs the limits were asked, once they were.
    asked: Option<usize>,
}

/// A batch that may start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DueBatch<'a> {
    /// Its place.
    pub(crate) at: usize,
    pub(crate) jobs: &'a [Gathered],
    /// How many of them start together if limits let them: those that came while these were asked take nothing away from it.
    pub(crate) together: usize,
}

impl Gathering {
    /// How many jobs more it takes until it is full, if those cost what they do that it has.
    fn missing(&self, most: Most) -> usize {
        let jobs = self.jobs.len();
        let by_number = self.batching.most().min(most.jobs).saturating_sub(jobs);
        if most.cost == u32::MAX || jobs == 0 {
            return by_number;
        }
        let left = u64::from(most.cost).saturating_sub(self.cost);
        by_number.min((left * jobs as u64 / self.cost.max(1)) as usize)
    }

    fn is_full(&self, most: Most) -> bool {
        self.missing(most) == 0
    }

    fn may_start(&self, now: Instant, most: Most) -> bool {
        self.is_full(most) || self.due.is_some_and(|due| due <= now)
    }

    /// Since when it may start, or from when on.
    fn since(&self, most: Most) -> Option<Instant> {
        let last = self.jobs.last().filter(|_| self.is_full(most)).map(|job| job.scope.asked_at());
        last.into_iter().chain(self.due).min()
    }

    /// Jobs were taken out.
    fn count_anew(&mut self) {
        self.cost = self.jobs.iter().map(|job| u64::from(job.popped.job.cost())).sum();
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
    most: Most,
    /// The sleeping executor that will look when a batch is due, and when.
    alarm: Option<(Instant, Arc<Notify>)>,
}

impl Gatherings {
    pub(crate) fn new(kinds: Arc<HashMap<String, Batching>>) -> Self {
        Self { kinds, open: Vec::new(), jobs: 0, last: 0, most: Most::ANY, alarm: None }
    }

    /// So much may start together.
    pub(crate) fn set_most(&mut self, most: Most) {
        self.most = most;
    }

    /// How many jobs wait.
    pub(crate) fn len(&self) -> usize {
        self.jobs
    }

    /// How many of them may be started now.
    pub(crate) fn startable(&self, now: Instant) -> usize {
        self.open.iter().filter(|open| open.may_start(now, self.most)).map(|open| open.jobs.len()).sum()
    }

    /// What those cost, in the order in which they are taken.
    pub(crate) fn costs(&self, now: Instant) -> impl Iterator<Item = u32> + Clone {
        let most = self.most;
        let startable = self.open.iter().filter(move |open| open.may_start(now, most));
        startable.flat_map(|open| &open.jobs).map(|job| job.popped.job.cost())
    }

    /// How many jobs more are good for batches that come together, or for the next of the kind that came last.
    pub(crate) fn missing(&self) -> usize {
        match self.open.is_empty() {
            true => self.last.min(self.most.jobs),
            false => self.open.iter().map(|open| open.missing(self.most)).sum(),
        }
    }

    /// The largest batch that there is reason to expect.
    pub(crate) fn largest(&self) -> usize {
        let open = self.open.iter().map(|open| open.batching.most());
        open.chain([self.last]).max().unwrap_or(0).max(1)
    }

    /// Whether a job of this kind and registration joins a batch now: it has one, and that is not full.
    pub(crate) fn takes(&self, kind: &str, epoch: &Arc<Epoch>) -> bool {
        let full = self.find(kind, epoch).is_some_and(|at| self.open[at].is_full(self.most));
        !full && self.is_batched(kind)
    }

    pub(crate) fn is_batched(&self, kind: &str) -> bool {
        self.kinds.contains_key(kind)
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
                cost: 0,
                due: scope.asked_at().checked_add(batching.wait()),
                asked: None,
            });
            self.open.len() - 1
        });
        self.open[at].cost += u64::from(popped.job.cost());
        self.open[at].jobs.push(Gathered { scope, popped });
        self.jobs += 1;
    }

    /// A job came that is not batched: where none waits for its batch, jobs need not be fetched ahead for one.
    pub(crate) fn note_other(&mut self) {
        self.last = 0;
    }

    /// The oldest batch that may start.
    pub(crate) fn due(&self, now: Instant) -> Option<DueBatch<'_>> {
        let at = self.open.iter().position(|open| open.may_start(now, self.most))?;
        let Gathering { jobs, asked, .. } = &self.open[at];
        let together = asked.map_or(jobs.len(), |asked| asked.min(jobs.len()));
        Some(DueBatch { at, jobs, together })
    }

    /// The limits are asked for what may start now.
    pub(crate) fn note_asked(&mut self, now: Instant) {
        let most = self.most;
        let startable = self.open.iter_mut().filter(|open| open.may_start(now, most));
        startable.for_each(|open| open.asked = Some(open.jobs.len()));
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
                open.asked = None;
                let jobs = open.jobs.drain(..most).collect();
                open.count_anew();
                jobs
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
            open.count_anew();
        }
        self.open.retain(|open| !open.jobs.is_empty());
        self.jobs -= gone.len();
        gone
    }

    /// Since when the first may start, or from when on.
    pub(crate) fn startable_since(&self) -> Option<Instant> {
        self.open.iter().filter_map(|open| open.since(self.most)).min()
    }

    /// Takes out the batches that could start by then.
    pub(crate) fn remove_since(&mut self, then: Instant) -> Vec<Gathered> {
        let most = self.most;
        let waited = |open: &mut Gathering| open.since(most).is_some_and(|since| since <= then);
        let gone: Vec<_> = self.open.extract_if(.., waited).flat_map(|open| open.jobs).collect();
        self.jobs -= gone.len();
        gone
    }

    /// When an executor should look, unless one will by then.
    pub(crate) fn alarm_due(&self, now: Instant) -> Option<Instant> {
        // What is due already waits for its limits or for an executor, both of which look by themselves.
        let waiting = self.open.iter().filter(|open| !open.may_start(now, self.most));
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
