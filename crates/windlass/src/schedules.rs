use crate::{Client, IntoJob};
use jiff::Timestamp;
use windlass_core::{
    AuditEntry, Error, ErrorKind, JobId, JobState, Result, Schedule, ScheduleFilter, SchedulePut,
    ScheduleRecord, ScheduleStep, SchedulesPut,
};
use windlass_schedule::Timing;

/// How often a run by hand is tried while others change the schedule at the same time.
const TRIES: usize = 20;

/// What a client does with schedules: see [`Client::schedules`].
#[derive(Clone, Copy, Debug)]
pub struct Schedules<'a> {
    client: &'a Client,
}

/// A schedule, and how its last job ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ListedSchedule {
    /// What the store has of it: what it does, and when it ticks next.
    pub record: ScheduleRecord,
    /// What has become of its last job; `None` when there was none.
    pub last_run: Option<LastRun>,
}

/// What has become of the last job of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LastRun {
    /// It waits, runs, or waits to be tried again.
    Unfinished,
    /// It has ended so.
    Ended(JobState),
    /// It has ended, and its history was removed.
    Forgotten,
}

impl LastRun {
    /// Its name: `unfinished`, a state, or `forgotten`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unfinished => "unfinished",
            Self::Ended(state) => state.as_str(),
            Self::Forgotten => "forgotten",
        }
    }
}

/// A schedule of a job: five or six fields of cron, an alias such as `@daily`, or `every 90s`. Sets what the schedule has beside that
/// as [`Schedule`] does.
///
/// ```
/// # use windlass::{Job, Overlap};
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct CleanUp;
/// # impl Job for CleanUp { const KIND: &'static str = "clean_up"; }
/// # fn main() -> windlass::Result<()> {
/// let nightly = windlass::schedule("nightly", "0 3 * * *", CleanUp)?
///     .with_zone("Europe/Berlin")
///     .with_overlap(Overlap::Skip);
/// assert_eq!(nightly.job().kind(), "clean_up");
/// # Ok(()) }
/// ```
///
/// # Errors
/// Args that do not serialise. Expression and zone are looked at when the schedule is declared.
pub fn schedule(name: impl Into<String>, cron: impl Into<String>, job: impl IntoJob) -> Result<Schedule> {
    Ok(Schedule::new(name, cron, job.into_job()?))
}

/// The next ticks of a schedule after an instant, at most so many, in its own time zone.
///
/// ```
/// # use windlass::{Args, NewJob};
/// # fn main() -> windlass::Result<()> {
/// let job = NewJob::new("clean_up", Args::parse("{}")?);
/// let nightly = windlass::schedule("nightly", "30 2 * * *", job)?.with_zone("Europe/Berlin");
/// let ticks = windlass::preview(&nightly, "2026-03-28T12:00:00Z".parse().unwrap(), 2)?;
/// assert_eq!(ticks[0].to_string(), "2026-03-29T03:00:00+02:00[Europe/Berlin]"); // there is no 2:30 that day
/// assert_eq!(ticks[1].to_string(), "2026-03-30T02:30:00+02:00[Europe/Berlin]");
/// # Ok(()) }
/// ```
///
/// # Errors
/// An expression or a zone that is none.
pub fn preview(schedule: &Schedule, after: Timestamp, count: usize) -> Result<Vec<jiff::Zoned>> {
    let timing = Timing::of(schedule)?;
    Ok(timing.after(after).take(count).map(|tick| timing.show(tick)).collect())
}

impl Client {
    /// Declares schedules and looks after them. Workers enqueue the jobs: one of them leads.
    ///
    /// ```
    /// # use windlass::{Client, Job, ScheduleFilter};
    /// # #[derive(serde::Serialize, serde::Deserialize)]
    /// # struct CleanUp;
    /// # impl Job for CleanUp { const KIND: &'static str = "clean_up"; }
    /// # #[cfg(feature = "sqlite")]
    /// # #[tokio::main]
    /// # async fn main() -> windlass::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let client = Client::connect(&format!("sqlite:{}/jobs.db", dir.path().display())).await?;
    /// # client.migrate().await?;
    /// client.schedules().put([windlass::schedule("nightly", "0 3 * * *", CleanUp)?]).await?;
    /// client.schedules().pause("nightly").await?;
    /// let job = client.schedules().run("nightly").await?; // now, beside its ticks
    /// let listed = client.schedules().list(&ScheduleFilter::default()).await?;
    /// assert_eq!((listed[0].record.paused, listed[0].record.last_job), (true, Some(job)));
    /// # Ok(()) }
    /// # #[cfg(not(feature = "sqlite"))] fn main() {}
    /// ```
    pub fn schedules(&self) -> Schedules<'_> {
        Schedules { client: self }
    }
}

impl Schedules<'_> {
    /// Declares schedules, all or none. What is there as declared stays as it is, so every instance of a program may declare
    /// the same when it starts. One that is another gets the new definition; its ticks, where they are others, count from now.
    ///
    /// # Errors
    /// What is wrong with the first bad one; nothing was changed then. [`ErrorKind::SchemaTooOld`] when the store has yet to be
    /// migrated for schedules.
    pub async fn put(&self, schedules: impl IntoIterator<Item = Schedule>) -> Result<SchedulesPut> {
        self.put_of(schedules, None).await
    }

    /// Declares all schedules of a source: those of this source that are not among them are removed.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub async fn put_all_of(
        &self,
        source: &str,
        schedules: impl IntoIterator<Item = Schedule>,
    ) -> Result<SchedulesPut> {
        let named = schedules.into_iter().map(|schedule| schedule.with_source(source));
        self.put_of(named, Some(source)).await
    }

    async fn put_of(
        &self,
        schedules: impl IntoIterator<Item = Schedule>,
        prune: Option<&str>,
    ) -> Result<SchedulesPut> {
        let mut checked = Vec::new();
        for schedule in schedules {
            Timing::of(&schedule)?;
            let job = self.client.new_job(schedule.job().clone())?;
            checked.push(schedule.with_job(job));
        }
        let put = self.client.store().put_schedules(&checked, prune).await;
        self.client.noted_as(put, |actor, put| put_entries(actor, &checked, put)).await
    }

    /// A page of schedules by name, with the next tick and the outcome of the last job of each.
    ///
    /// # Errors
    /// The store's.
    pub async fn list(&self, filter: &ScheduleFilter) -> Result<Vec<ListedSchedule>> {
        let mut records = self.client.store().schedules(filter).await?;
        records.iter_mut().for_each(find_next);
        let ids: Vec<JobId> = records.iter().filter_map(|record| record.last_job).collect();
        let ended = if ids.is_empty() { Default::default() } else { self.client.store().ended(&ids).await? };
        let run = |id: JobId| {
            let job = ended.jobs.iter().find(|job| job.id == id);
            match job {
                Some(job) => LastRun::Ended(job.state),
                None if ended.unknown.contains(&id) => LastRun::Forgotten,
                None => LastRun::Unfinished,
            }
        };
        let listed = |record: ScheduleRecord| ListedSchedule { last_run: record.last_job.map(run), record };
        Ok(records.into_iter().map(listed).collect())
    }

    /// One schedule by its name.
    ///
    /// # Errors
    /// The store's.
    pub async fn get(&self, name: &str) -> Result<Option<ListedSchedule>> {
        let filter = ScheduleFilter { name: Some(name.to_owned()), ..ScheduleFilter::default() };
        Ok(self.list(&filter).await?.pop())
    }

    /// Removes a schedule. Jobs that it enqueued stay.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] for an unknown one, or the store's.
    pub async fn remove(&self, name: &str) -> Result<()> {
        let removed = self.client.store().remove_schedules(&[name.to_owned()]).await;
        self.known("schedules.remove", name, removed).await
    }

    /// Stops a schedule until it is [resumed](Self::resume). No declaration ends a pause.
    ///
    /// # Errors
    /// As [`Self::remove`].
    pub async fn pause(&self, name: &str) -> Result<()> {
        let paused = self.client.store().pause_schedules(&[name.to_owned()], true).await;
        self.known("schedules.pause", name, paused).await
    }

    /// Lets a schedule go on with its next tick from now on.
    ///
    /// # Errors
    /// As [`Self::remove`].
    pub async fn resume(&self, name: &str) -> Result<()> {
        let resumed = self.client.store().pause_schedules(&[name.to_owned()], false).await;
        self.known("schedules.resume", name, resumed).await
    }

    /// Enqueues the job of a schedule now, beside its ticks and whether it is paused or not. It counts as the last job where the
    /// schedule asks whether that has ended.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] for an unknown one, or the store's. After one that [is ambiguous](Error::is_ambiguous) see what its
    /// [last job](ScheduleRecord::last_job) is.
    pub async fn run(&self, name: &str) -> Result<JobId> {
        self.client.noted("schedules.run", name, self.run_now(name).await).await
    }

    async fn run_now(&self, name: &str) -> Result<JobId> {
        for _ in 0..TRIES {
            let listed = self.get(name).await?.ok_or_else(|| not_found(name))?;
            let mut step = ScheduleStep::of(&listed.record);
            step.jobs = vec![listed.record.schedule()?.job_at(None)];
            let taken = self.client.store().advance_schedules(&[step]).await?;
            if let Some(id) = taken.into_iter().flatten().flatten().next() {
                return Ok(id);
            }
        }
        let message = format!("schedule {name:?} is changed all the time; try again");
        Err(Error::new(ErrorKind::Unavailable, message))
    }

    /// Whether the schedule was there to be changed; notes that it was.
    async fn known(&self, action: &str, name: &str, found: Result<Vec<bool>>) -> Result<()> {
        let changed =
            found.and_then(|found| found.contains(&true).then_some(()).ok_or_else(|| not_found(name)));
        self.client.noted(action, name, changed).await
    }
}

/// Until the worker that leads has looked at a schedule, the store does not know the next tick, which it will find.
fn find_next(record: &mut ScheduleRecord) {
    if record.next_tick.is_none() && record.due_at.is_some() {
        let timing = record.schedule().and_then(|schedule| Timing::of(&schedule));
        record.next_tick = timing.ok().and_then(|timing| timing.next_after(record.decided));
    }
}

/// What a declaration changed, as the audit log has it; of one whose answer was lost all that it declared.
fn put_entries(actor: &str, schedules: &[Schedule], put: Option<&SchedulesPut>) -> Vec<AuditEntry> {
    let is_as_it_was = |n| put.is_some_and(|put: &SchedulesPut| put.puts[n] == SchedulePut::Unchanged);
    let changed = schedules.iter().enumerate().filter(|(n, _)| !is_as_it_was(*n));
    let changed = changed.map(|(_, schedule)| AuditEntry::new(actor, "schedules.put", schedule.name()));
    let removed = put.into_iter().flat_map(|put| &put.pruned);
    changed.chain(removed.map(|name| AuditEntry::new(actor, "schedules.remove", name))).collect()
}

fn not_found(name: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("schedule {name:?} does not exist"))
}
