use crate::{
    SqliteStore,
    schedules::{self, PackedStep},
    store::DURABLE,
};
use async_trait::async_trait;
use windlass_core::{
    DueSchedules, JobId, Result, Schedule, ScheduleFilter, ScheduleRecord, ScheduleStep, ScheduleStore,
    SchedulesPut,
};

#[async_trait]
impl ScheduleStore for SqliteStore {
    async fn put_schedules(&self, schedules: &[Schedule], prune: Option<&str>) -> Result<SchedulesPut> {
        self.options.limits.check_schedules(schedules)?;
        let (schedules, prune) = (schedules.to_vec(), prune.map(str::to_owned));
        let put = self.write(DURABLE, move |tx| schedules::put(tx, &schedules, prune.as_deref())).await?;
        self.signal.schedules_changed();
        Ok(put)
    }

    async fn schedules(&self, filter: &ScheduleFilter) -> Result<Vec<ScheduleRecord>> {
        filter.check()?;
        let filter = filter.clone();
        self.read(move |conn| schedules::list(conn, &filter)).await
    }

    async fn remove_schedules(&self, names: &[String]) -> Result<Vec<bool>> {
        let names = names.to_vec();
        let removed = self.write(DURABLE, move |tx| schedules::remove(tx, &names)).await?;
        self.signal.schedules_changed();
        Ok(removed)
    }

    async fn pause_schedules(&self, names: &[String], paused: bool) -> Result<Vec<bool>> {
        let names = names.to_vec();
        let found = self.write(DURABLE, move |tx| schedules::pause(tx, &names, paused)).await?;
        self.signal.schedules_changed();
        Ok(found)
    }

    async fn due_schedules(&self, limit: u32) -> Result<DueSchedules> {
        let clock = self.options.clock.clone();
        self.look(move |conn| schedules::due(conn, clock.now(), limit)).await
    }

    async fn advance_schedules(&self, steps: &[ScheduleStep]) -> Result<Vec<Option<Vec<JobId>>>> {
        for step in steps {
            self.options.limits.check(&step.jobs)?;
        }
        if steps.is_empty() {
            return Ok(Vec::new());
        }
        let steps: Vec<_> = steps.iter().map(PackedStep::pack).collect();
        self.write(DURABLE, move |tx| steps.iter().map(|step| step.take(tx)).collect()).await
    }
}
