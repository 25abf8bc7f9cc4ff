use crate::{
    DueSchedules, JobId, Result, Schedule, ScheduleFilter, ScheduleRecord, ScheduleStep, SchedulesPut,
};
use async_trait::async_trait;
use std::sync::Arc;

/// Schedules, as a store keeps them: who declared what, and what was decided so far.
///
/// The store knows neither cron nor zones. Whoever leads asks for schedules that are due, decides (crate `windlass-schedule`), and
/// has the store take the step: the jobs of a tick and the note that it was decided commit together, and only if the record
/// is still the one that the decision was made on. So however many decide at once, each tick fires once.
///
/// Every method fails with `schema_too_old` where the store has yet to be migrated for it.
#[async_trait]
pub trait ScheduleStore: Send + Sync + 'static {
    /// Declares schedules by their names, all or none. What is there as declared stays as it is; what is another gets the new
    /// definition, and where its ticks are others, those from now on. A pause stays.
    ///
    /// With `prune`, a source, those schedules of this source are removed that are not among these.
    ///
    /// # Errors
    /// What [`Limits::check_schedules`](crate::Limits::check_schedules) refuses. The expression and the zone are for the
    /// caller to check: what makes no schedule gets its [error](ScheduleRecord::error) by who leads, and never fires.
    async fn put_schedules(&self, schedules: &[Schedule], prune: Option<&str>) -> Result<SchedulesPut>;

    /// A page of schedules in the order of their names (of bytes).
    async fn schedules(&self, filter: &ScheduleFilter) -> Result<Vec<ScheduleRecord>>;

    /// Removes schedules; jobs that they enqueued stay. Whether there was one, in order.
    async fn remove_schedules(&self, names: &[String]) -> Result<Vec<bool>>;

    /// Pauses schedules, or has them go on: with the next tick from then on, those of the pause are over. Whether there was
    /// one, in order.
    async fn pause_schedules(&self, names: &[String], paused: bool) -> Result<Vec<bool>>;

    /// At most so many schedules that have something to be decided. Cheap where there is none.
    async fn due_schedules(&self, limit: u32) -> Result<DueSchedules>;

    /// Takes steps, all in one transaction: those of which the record still has the version that was decided on. The ids of
    /// its jobs for each, in order; `None` for one that was not taken, because somebody else was first, changed the schedule, or
    /// is about to.
    ///
    /// # Errors
    /// What [`Limits::check`](crate::Limits::check) refuses of a job; nothing is done then.
    async fn advance_schedules(&self, steps: &[ScheduleStep]) -> Result<Vec<Option<Vec<JobId>>>>;
}

/// Is told that schedules changed.
pub type OnSchedules = Arc<dyn Fn() + Send + Sync>;
