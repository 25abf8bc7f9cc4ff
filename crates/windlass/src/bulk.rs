use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use windlass_core::{CancelReply, Error, ErrorKind, JobFilter, JobId, JobState, Result, RetryReply, Store};

/// How many jobs one call to the store names.
const CHUNK: u32 = 500;
/// What may be cancelled, in the order in which jobs go from one to the next, so that one that moves on meanwhile is met again.
const TO_CANCEL: &[JobState] =
    &[JobState::Scheduled, JobState::Retryable, JobState::Available, JobState::Running];
/// What may be retried.
const TO_RETRY: &[JobState] = &[JobState::Retryable, JobState::Discarded, JobState::Cancelled];

/// Something that is done to all jobs that a filter selects: see [`Client::select`](crate::Client::select).
///
/// Jobs that come while it is under way may be left out. It stops at the first error; what was done until then is done.
#[must_use = "nothing happens until a verb such as cancel is awaited"]
pub struct Selection<'a> {
    store: &'a dyn Store,
    filter: JobFilter,
    everything: bool,
    dry_run: bool,
    at_most: u64,
    pause: Option<Duration>,
    progress: Box<dyn FnMut(&Touched) + Send + 'a>,
}

/// How many jobs were touched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Touched {
    /// Jobs that the filter selected.
    pub selected: u64,
    /// Of these, jobs that were cancelled or retried, or would be in a dry run.
    pub done: u64,
    /// Jobs whose workers were asked to stop them: each ends as cancelled, or as what its handler makes of it.
    pub asked: u64,
    /// Jobs that had moved on meanwhile, so that nothing was to be done.
    pub left: u64,
    /// Nothing was changed.
    pub dry_run: bool,
}

impl<'a> Selection<'a> {
    pub(crate) fn new(store: &'a dyn Store, filter: JobFilter) -> Self {
        Self {
            store,
            filter,
            everything: false,
            dry_run: false,
            at_most: u64::MAX,
            pause: None,
            progress: Box::new(|_| {}),
        }
    }

    /// Allows a filter that selects every job.
    pub fn everything(mut self) -> Self {
        self.everything = true;
        self
    }

    /// Changes nothing, and says what would be touched.
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    /// Touches so many jobs at most.
    pub fn at_most(mut self, jobs: u64) -> Self {
        self.at_most = jobs;
        self
    }

    /// Touches no more than so many jobs a second, so that workers are not flooded.
    pub fn per_second(mut self, jobs: f64) -> Self {
        self.pause =
            Duration::try_from_secs_f64(f64::from(CHUNK) / jobs).ok().filter(|pause| !pause.is_zero());
        self
    }

    /// Is told how far it is.
    pub fn progress(mut self, told: impl FnMut(&Touched) + Send + 'a) -> Self {
        self.progress = Box::new(told);
        self
    }
}

#[derive(Clone, Copy, Debug)]
enum Verb {
    Cancel,
    Retry,
}

impl Verb {
    fn states(self) -> &'static [JobState] {
        match self {
            Self::Cancel => TO_CANCEL,
            Self::Retry => TO_RETRY,
        }
    }

    /// Does it to these jobs.
    async fn act(self, store: &dyn Store, ids: &[JobId], touched: &mut Touched) -> Result<()> {
        let count = |n: usize| n as u64;
        let (done, asked) = match self {
            Self::Cancel => {
                let replies = store.cancel(ids).await?;
                let of = |what| count(replies.iter().filter(|reply| **reply == what).count());
                (of(CancelReply::Cancelled), of(CancelReply::Running))
            }
            Self::Retry => {
                let replies = store.retry(ids).await?;
                (count(replies.iter().filter(|reply| **reply == RetryReply::Retried).count()), 0)
            }
        };
        touched.done += done;
        touched.asked += asked;
        touched.left += count(ids.len()) - done - asked;
        Ok(())
    }
}

impl Selection<'_> {
    /// Cancels the jobs that wait or run, see [`Client::cancel`](crate::Client::cancel).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`] for a filter that selects everything, unless [that is meant](Self::everything), and for
    /// one of jobs that are over; or the store's.
    pub async fn cancel(self) -> Result<Touched> {
        self.run(Verb::Cancel).await
    }

    /// Makes the dead, cancelled and retryable jobs available now, see [`Client::retry`](crate::Client::retry).
    ///
    /// # Errors
    /// As [`Self::cancel`], for a filter of jobs that are not dead, cancelled or retryable.
    pub async fn retry(self) -> Result<Touched> {
        self.run(Verb::Retry).await
    }

    fn check(&self, verb: Verb) -> Result<()> {
        let JobFilter { state, queue, kind, tag, .. } = &self.filter;
        let refuse = |message: String| Err(Error::new(ErrorKind::InvalidOption, message));
        if state.is_none() && queue.is_none() && kind.is_none() && tag.is_none() && !self.everything {
            return refuse(
                "the filter selects every job; name a state, a queue, a kind or a tag, or say that everything is meant"
                    .to_owned(),
            );
        }
        match state {
            Some(state) if !verb.states().contains(state) => {
                let states: Vec<_> = verb.states().iter().map(ToString::to_string).collect();
                let (verb, states) = (format!("{verb:?}").to_lowercase(), states.join(", "));
                refuse(format!("cannot {verb} {state} jobs; it can be done to those that are {states}"))
            }
            _ => Ok(()),
        }
    }

    async fn run(mut self, verb: Verb) -> Result<Touched> {
        self.check(verb)?;
        let mut touched = Touched { dry_run: self.dry_run, ..Touched::default() };
        let only = self.filter.state;
        for state in verb.states().iter().filter(|state| only.is_none_or(|only| only == **state)) {
            self.filter.state = Some(*state);
            self.filter.after = None;
            while touched.selected < self.at_most {
                let began = Instant::now();
                let left = self.at_most - touched.selected;
                self.filter.limit = u32::try_from(left).unwrap_or(CHUNK).min(CHUNK);
                let page = self.store.jobs(&self.filter).await?;
                let ids: Vec<_> = page.iter().map(|job| job.id).collect();
                touched.selected += ids.len() as u64;
                match self.dry_run {
                    true => touched.done += ids.len() as u64,
                    false => verb.act(self.store, &ids, &mut touched).await?,
                }
                (self.progress)(&touched);
                self.filter.after = page.next;
                if self.filter.after.is_none() {
                    break;
                }
                if let Some(pause) = self.pause.filter(|_| !ids.is_empty() && !self.dry_run) {
                    sleep_until(began + pause.mul_f64(ids.len() as f64 / f64::from(CHUNK))).await;
                }
            }
        }
        if !self.dry_run {
            let Touched { selected, done, asked, left, .. } = touched;
            tracing::info!(target: "windlass::audit", ?verb, selected, done, asked, left, "jobs were touched");
        }
        Ok(touched)
    }
}
