use crate::{Error, JobId, Limits, NewJob, Result, Schedule};
use jiff::Timestamp;
use std::time::Duration;

/// A schedule as a store has it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ScheduleRecord {
    /// Its name.
    pub name: String,
    /// Who declared it; empty for nobody in particular.
    pub source: String,
    /// Its definition, as [`Schedule::to_json`] writes it. SQL may have written what makes no schedule.
    pub definition: String,
    /// Whether somebody paused it.
    pub paused: bool,
    /// Another one after each change, never used again.
    pub version: i64,
    /// Every tick up to here was decided: it fired, or was passed over. No tick is decided twice.
    pub decided: Timestamp,
    /// The next tick; `None` when there is none, and until the worker that leads has found it.
    pub next_tick: Option<Timestamp>,
    /// When there is something to do: the next tick with its jitter; `None` for never.
    pub due_at: Option<Timestamp>,
    /// The last tick that fired.
    pub last_tick: Option<Timestamp>,
    /// The job that was enqueued last, by a tick or by hand.
    pub last_job: Option<JobId>,
    /// When that was.
    pub last_enqueued_at: Option<Timestamp>,
    /// A tick that waits for the end of the last job.
    pub queued_tick: Option<Timestamp>,
    /// Why it never fires: what is wrong with its definition.
    pub error: Option<String>,
}

impl ScheduleRecord {
    /// A record as it is made; stores fill in the rest.
    pub fn new(name: String, source: String, definition: String, version: i64, decided: Timestamp) -> Self {
        Self {
            name,
            source,
            definition,
            paused: false,
            version,
            decided,
            next_tick: None,
            due_at: None,
            last_tick: None,
            last_job: None,
            last_enqueued_at: None,
            queued_tick: None,
            error: None,
        }
    }

    /// The schedule that was declared.
    ///
    /// # Errors
    /// What [`Schedule::from_store`] refuses.
    pub fn schedule(&self) -> Result<Schedule> {
        Schedule::from_store(&self.name, &self.source, &self.definition)
    }
}

/// Which schedules to list, by name.
#[derive(Clone, Debug)]
pub struct ScheduleFilter {
    /// Only this one.
    pub name: Option<String>,
    /// Only those of this source.
    pub source: Option<String>,
    /// Only those behind this name: the last one of the page before.
    pub after: Option<String>,
    /// How many at most; a store may give fewer, never more than [`Self::MOST`].
    pub limit: u32,
}

impl ScheduleFilter {
    /// The most schedules of one page.
    pub const MOST: u32 = 1_000;

    /// Refuses names that no schedule has; a store calls this first.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`](crate::ErrorKind::InvalidOption).
    pub fn check(&self) -> Result<()> {
        let names = [&self.name, &self.source, &self.after];
        Limits::check_no_nul("a schedule or its source", names.into_iter().flatten())
    }
}

impl Default for ScheduleFilter {
    /// All, 100 at a time.
    fn default() -> Self {
        Self { name: None, source: None, after: None, limit: 100 }
    }
}

/// What [`ScheduleStore::put_schedules`](crate::ScheduleStore::put_schedules) did with one schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchedulePut {
    /// It is new.
    Created,
    /// It was there, and is another now.
    Changed,
    /// It was there as it is.
    Unchanged,
}

/// What [`ScheduleStore::put_schedules`](crate::ScheduleStore::put_schedules) did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedulesPut {
    /// One for each schedule, in order.
    pub puts: Vec<SchedulePut>,
    /// The names of those that were removed.
    pub pruned: Vec<String>,
}

/// Schedules that have something to be decided.
#[derive(Clone, Debug)]
pub struct DueSchedules {
    /// What time it is by the store's clock.
    pub now: Timestamp,
    /// Those that are due, the longest due first.
    pub due: Vec<ScheduleRecord>,
    /// How long until the next one is due after these; `None` when none will be.
    pub next_due: Option<Duration>,
}

/// What was decided of a schedule: the next state of its record, and the jobs that go with it.
#[derive(Clone, Debug)]
pub struct ScheduleStep {
    /// Its name.
    pub name: String,
    /// The version of the record that the decision was made on.
    pub version: i64,
    /// The record's [`decided`](ScheduleRecord::decided).
    pub decided: Timestamp,
    /// The record's [`next_tick`](ScheduleRecord::next_tick).
    pub next_tick: Option<Timestamp>,
    /// The record's [`due_at`](ScheduleRecord::due_at).
    pub due_at: Option<Timestamp>,
    /// The record's [`last_tick`](ScheduleRecord::last_tick).
    pub last_tick: Option<Timestamp>,
    /// The record's [`queued_tick`](ScheduleRecord::queued_tick).
    pub queued_tick: Option<Timestamp>,
    /// The record's [`error`](ScheduleRecord::error).
    pub error: Option<String>,
    /// The jobs to enqueue, none of them [unique](crate::Unique); the last one becomes the record's
    /// [`last_job`](ScheduleRecord::last_job).
    pub jobs: Vec<NewJob>,
}

impl ScheduleStep {
    /// A step that leaves the record as it is.
    pub fn of(record: &ScheduleRecord) -> Self {
        Self {
            name: record.name.clone(),
            version: record.version,
            decided: record.decided,
            next_tick: record.next_tick,
            due_at: record.due_at,
            last_tick: record.last_tick,
            queued_tick: record.queued_tick,
            error: record.error.clone(),
            jobs: Vec::new(),
        }
    }

    /// The step after which the schedule does not fire any more, because of this error, until it is declared anew.
    #[must_use]
    pub fn refused(mut self, error: &Error) -> Self {
        (self.next_tick, self.due_at, self.queued_tick) = (None, None, None);
        self.error = Some(error.to_string());
        self.jobs = Vec::new();
        self
    }
}
