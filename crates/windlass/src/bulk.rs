mod seen;
mod touched;
mod verb;

pub use touched::Touched;

use crate::Client;
use seen::Seen;
use std::{borrow::Cow, collections::HashSet, future::pending, pin::Pin, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep_until};
use verb::Verb;
use windlass_core::{
    AuditEntry, Envelope, Error, ErrorKind, JobEdit, JobFilter, JobId, JobPage, JobRecord, JobState, Limits,
    Result, Store,
};

/// How many jobs one call to the store names at most.
const CHUNK: u32 = 500;
/// The longest rest between two calls.
const YEARS: Duration = Duration::from_secs(10 * 365 * 86_400);

type Found<'a> = Box<dyn FnMut(&[JobId]) + Send + 'a>;
type Ids<'a> = Pin<Box<dyn Future<Output = Result<Vec<JobId>>> + Send + 'a>>;
type Still<'a> = Box<dyn FnMut(Vec<JobId>) -> Ids<'a> + Send + 'a>;

/// Something that is done to all jobs that a filter selects, or to those with some ids: see [`Client::select`](crate::Client::select) and
/// [`Client::select_ids`](crate::Client::select_ids).
///
/// Jobs that come while it is under way may be left out. It stops at the first error; what was done until then is done. Jobs that others hold, as in a transaction that is open, it passes over: the
/// error at the end says how many. It waits for them once, for as long as a call may take; from then on it tries each once, and passes over some that are free among many that are not.
#[must_use = "nothing happens until a verb such as cancel is awaited"]
pub struct Selection<'a> {
    client: &'a Client,
    filter: JobFilter,
    /// These, instead of a filter.
    ids: Option<Vec<JobId>>,
    everything: bool,
    dry_run: bool,
    at_most: u64,
    per_second: Option<f64>,
    progress: Box<dyn FnMut(&Touched) + Send + 'a>,
    found: Found<'a>,
    still: Option<Still<'a>>,
    stop: Pin<Box<dyn Future<Output = ()> + Send + 'a>>,
    /// What holds jobs that it passed over: see [`Error::holder`].
    holder: Option<&'static str>,
    /// What takes the place of the client's store once it has waited for these: the others are not waited for anew, page by page.
    without_patience: Option<Arc<dyn Store>>,
}

impl<'a> Selection<'a> {
    pub(crate) fn new(client: &'a Client, filter: JobFilter) -> Self {
        Self {
            client,
            filter,
            ids: None,
            everything: false,
            dry_run: false,
            at_most: u64::MAX,
            per_second: None,
            progress: Box::new(|_| {}),
            found: Box::new(|_| {}),
            still: None,
            stop: Box::pin(pending()),
            holder: None,
            without_patience: None,
        }
    }

    pub(crate) fn of_ids(client: &'a Client, mut ids: Vec<JobId>) -> Self {
        let mut named = HashSet::new();
        ids.retain(|id| named.insert(*id));
        Self { ids: Some(ids), ..Self::new(client, JobFilter::default()) }
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

    /// Touches no more than so many jobs a second, so that workers are not flooded. More than 0.
    pub fn per_second(mut self, jobs: f64) -> Self {
        self.per_second = Some(jobs);
        self
    }

    /// Is told how far it is.
    pub fn progress(mut self, told: impl FnMut(&Touched) + Send + 'a) -> Self {
        self.progress = Box::new(told);
        self
    }

    /// Ends early when `stop` is over. The call to the store that is under way then is waited for, so that all it touched is told.
    pub fn until(mut self, stop: impl Future<Output = ()> + Send + 'a) -> Self {
        self.stop = Box::pin(stop);
        self
    }

    /// Is told which jobs it is about to touch, or would in a dry run, some hundreds at a time.
    pub fn found(mut self, told: impl FnMut(&[JobId]) + Send + 'a) -> Self {
        self.found = Box::new(told);
        self
    }

    /// Asks, right before jobs that were named are touched, which of these still are to be; the others are left as they are. A dry run does not ask.
    #[doc(hidden)]
    pub fn still(mut self, which: impl FnMut(Vec<JobId>) -> Ids<'a> + Send + 'a) -> Self {
        self.still = Some(Box::new(which));
        self
    }
}

impl Selection<'_> {
    /// Cancels the jobs that wait or run, see [`Client::cancel`](crate::Client::cancel). Each job is cancelled, or asked to stop, once, for which
    /// 8 bytes are remembered while it is under way.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`] for a filter that selects everything, unless [that is meant](Self::everything), for
    /// one of jobs that are over, and for a pace that is none; or the store's.
    pub async fn cancel(self) -> Result<Touched> {
        self.run(Verb::Cancel).await
    }

    /// Makes the dead, cancelled and retryable jobs available now, see [`Client::retry`](crate::Client::retry). Each job is retried
    /// once, whatever becomes of it meanwhile, for which 8 bytes are remembered while it is under way.
    ///
    /// # Errors
    /// As [`Self::cancel`], for a filter of jobs that are not dead, cancelled or retryable.
    pub async fn retry(self) -> Result<Touched> {
        self.run(Verb::Retry).await
    }

    /// Changes the jobs that wait, see [`Client::edit`](crate::Client::edit); dead and cancelled ones where the filter names that
    /// state and the edit says no time. Each job is changed once, for which 8 bytes are remembered while it is under way.
    ///
    /// # Errors
    /// As [`Self::cancel`], for a filter of jobs that cannot be edited; and for an edit that stores refuse.
    pub async fn edit(self, edit: JobEdit) -> Result<Touched> {
        edit.check(&Limits { max_args_bytes: usize::MAX })?; // a dry run asks no store
        self.run(Verb::Edit(edit)).await
    }

    /// Removes the jobs that wait, are dead or cancelled, see [`Client::delete`](crate::Client::delete).
    ///
    /// # Errors
    /// As [`Self::cancel`], for a filter of jobs that run or completed.
    pub async fn delete(self) -> Result<Touched> {
        self.run(Verb::Delete).await
    }

    fn check(&self, verb: &Verb) -> Result<()> {
        let state = &self.filter.state;
        let refuse = |message: String| Err(Error::new(ErrorKind::InvalidOption, message));
        if self.filter.is_everything() && !self.everything {
            return refuse(
                "the filter selects every job; name a state, a queue, a kind, a tag, an error or args, or say that everything is meant"
                    .to_owned(),
            );
        }
        match state {
            Some(state @ (JobState::Discarded | JobState::Cancelled)) if verb.sets_time() => refuse(format!(
                "a time cannot be set for {state} jobs; use retry, which makes them available at once"
            )),
            Some(state) if !verb.can_be_done_to().contains(state) => {
                let states: Vec<_> = verb.can_be_done_to().iter().map(ToString::to_string).collect();
                let (verb, states) = (verb.name(), states.join(", "));
                refuse(format!("cannot {verb} {state} jobs; it can be done to those that are {states}"))
            }
            _ => Ok(()),
        }
    }

    async fn run(mut self, verb: Verb) -> Result<Touched> {
        // NaN is no pace either.
        if let Some(pace) = self.per_second.filter(|pace| !pace.gt(&0.0)) {
            let message = format!("the jobs per second must be more than 0, got {pace}");
            return Err(Error::new(ErrorKind::InvalidOption, message));
        }
        let mut touched = Touched { dry_run: self.dry_run, ..Touched::default() };
        let ids = self.ids.take();
        let entry = self.entry(&verb, ids.as_deref());
        let ended = match (self.is_stopped(Instant::now(), 0).await, ids) {
            (true, _) => Ok(()),
            (false, Some(ids)) => self.run_ids(&verb, &ids, &mut touched).await,
            (false, None) => self.run_filter(&verb, &mut touched).await,
        };
        let ended = ended.and_then(|()| self.had_all(&verb, &touched));
        // What was done before an error is done.
        if !self.dry_run && (ended.is_ok() || touched.selected > 0) {
            let Touched { selected, done, asked, encrypted, left, .. } = touched;
            let error = ended.as_ref().err().map(tracing::field::display);
            tracing::info!(target: "windlass::audit", ?verb, selected, done, asked, encrypted, left, error, "jobs were touched");
            if let Some(entry) = entry.and_then(|entry| entry.with_count(done + asked).ended(&ended)) {
                self.client.append_audit_or_warn(&[entry]).await;
            }
        }
        ended.map(|()| touched)
    }

    /// What the audit log is to have of it, where the client acts for somebody.
    fn entry(&self, verb: &Verb, ids: Option<&[JobId]>) -> Option<AuditEntry> {
        let (actor, action) = (self.client.actor()?, verb.action());
        let entry = match ids {
            Some(ids) => AuditEntry::of_jobs(actor, action, ids),
            None => {
                let mut entry = AuditEntry::new(actor, action, "jobs");
                entry.filter = self.filter.noted();
                entry
            }
        };
        Some(match verb {
            Verb::Edit(edit) => entry.with_edit(edit),
            _ => entry,
        })
    }

    async fn run_ids(&mut self, verb: &Verb, ids: &[JobId], touched: &mut Touched) -> Result<()> {
        let most = usize::try_from(self.at_most).unwrap_or(usize::MAX).min(ids.len());
        let mut left = ids[..most].chunks(self.chunk() as usize).peekable();
        while let Some(some) = left.next() {
            let began = Instant::now();
            match self.dry_run {
                true => self.look(verb, some, touched).await?,
                false => {
                    let Some(still) = self.still_to_touch(some).await? else { break };
                    let moved_on = (some.len() - still.len()) as u64;
                    (touched.selected, touched.left) = (touched.selected + moved_on, touched.left + moved_on);
                    self.touch(verb, &still, touched).await?;
                }
            }
            if left.peek().is_none() || self.is_stopped(began, some.len()).await {
                break;
            }
        }
        Ok(())
    }

    async fn run_filter(&mut self, verb: &Verb, touched: &mut Touched) -> Result<()> {
        self.check(verb)?;
        // They may be met again, where they are then: a job that a worker took meanwhile runs, what is cancelled running is cancelled once.
        let once = !matches!(verb, Verb::Delete);
        let mut seen = Seen::default();
        let states = self.filter.state.map_or_else(|| verb.states().to_vec(), |only| vec![only]);
        for state in states {
            self.filter.state = Some(state);
            self.filter.after = None;
            while touched.selected < self.at_most {
                let began = Instant::now();
                let left = self.at_most - touched.selected;
                self.filter.limit = u32::try_from(left).unwrap_or(CHUNK).min(self.chunk());
                let page = self.client.store().jobs(&self.filter).await?;
                let JobPage { mut jobs, next } = page;
                if once {
                    jobs.retain(|job| seen.insert(job.id));
                }
                if self.dry_run {
                    let seen: Vec<_> =
                        jobs.iter().map(|job| (job.id, Some(job.state), is_sealed(job))).collect();
                    self.count(verb, &seen, touched);
                } else {
                    let ids: Vec<_> = jobs.iter().map(|job| job.id).collect();
                    self.touch(verb, &ids, touched).await?;
                }
                self.filter.after = next;
                if self.filter.after.is_none() {
                    break;
                }
                if self.is_stopped(began, jobs.len()).await {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Which of these are to be touched; `None` where it is to end instead.
    async fn still_to_touch<'s>(&mut self, some: &'s [JobId]) -> Result<Option<Cow<'s, [JobId]>>> {
        let Some(still) = &mut self.still else { return Ok(Some(Cow::Borrowed(some))) };
        tokio::select! {
            ids = still(some.to_vec()) => Ok(Some(Cow::Owned(ids?))),
            () = &mut self.stop => Ok(None),
        }
    }

    async fn touch(&mut self, verb: &Verb, ids: &[JobId], touched: &mut Touched) -> Result<()> {
        touched.selected += ids.len() as u64;
        (self.found)(ids);
        let store = self.without_patience.as_ref().unwrap_or_else(|| self.client.store());
        let ended = verb.act(&**store, ids, touched).await;
        (self.progress)(touched);
        match ended {
            Err(error) if error.holder().is_some() => {
                self.holder = error.holder();
                if self.without_patience.is_none() {
                    self.without_patience = self.client.store().without_patience();
                }
                Ok(())
            }
            ended => ended,
        }
    }

    /// Fails where others hold some of the jobs. A store's error tells of one call, which may not be all there were.
    fn had_all(&self, verb: &Verb, touched: &Touched) -> Result<()> {
        let Some(holder) = self.holder else { return Ok(()) };
        let &Touched { selected, done, asked, encrypted, left, .. } = touched;
        let (verb, held) = (verb.name(), selected - done - asked - encrypted - left);
        let done = match done + asked {
            0 => "nothing was done".to_owned(),
            done => format!("{done} were done"),
        };
        let message = format!("{verb}: {held} of {selected} jobs could not be had, {done}: {holder}");
        Err(Error::new(ErrorKind::Unavailable, message).with_holder(holder))
    }

    /// What would become of jobs that were named: each is looked at, since nobody has said, as a filter does, that it can be done to them.
    async fn look(&mut self, verb: &Verb, ids: &[JobId], touched: &mut Touched) -> Result<()> {
        let (store, mut seen) = (self.client.store(), Vec::with_capacity(ids.len()));
        if verb.sets_args() {
            for id in ids {
                let job = store.job(*id).await?; // one by one: args may be large
                seen.push((*id, job.as_ref().map(|job| job.state), job.as_ref().is_some_and(is_sealed)));
            }
        } else {
            let states = store.states(ids).await?;
            seen.extend(ids.iter().zip(states).map(|(id, state)| (*id, state, false)));
        }
        self.count(verb, &seen, touched);
        Ok(())
    }

    /// Counts what would become of jobs: by the state of each that is there, and whether its args are encrypted.
    fn count(&mut self, verb: &Verb, jobs: &[(JobId, Option<JobState>, bool)], touched: &mut Touched) {
        let mut would = Vec::new();
        for (id, state, is_sealed) in jobs {
            if verb.would(*state, *is_sealed && verb.sets_args(), touched) {
                would.push(*id);
            }
        }
        touched.selected += jobs.len() as u64;
        (self.found)(&would);
        (self.progress)(touched);
    }

    /// How many jobs one call to the store names: at a pace, those of a second and no more.
    fn chunk(&self) -> u32 {
        match self.per_second {
            Some(jobs) if !self.dry_run => (jobs as u32).clamp(1, CHUNK),
            _ => CHUNK,
        }
    }

    /// Waits until so many jobs are no more a second than they may be; whether it is to end instead.
    async fn is_stopped(&mut self, began: Instant, jobs: usize) -> bool {
        let pace = self.per_second.filter(|_| jobs > 0 && !self.dry_run);
        let rest = async {
            let Some(pace) = pace else { return };
            // A pace so slow that no time says it is one of years.
            let pause =
                Duration::try_from_secs_f64(jobs as f64 / pace).map_or(YEARS, |pause| pause.min(YEARS));
            sleep_until(began + pause).await;
        };
        tokio::select! {
            biased;
            () = &mut self.stop => true,
            () = rest => false,
        }
    }
}

fn is_sealed(job: &JobRecord) -> bool {
    Envelope::is_one(job.args.as_str().as_bytes())
}
