//! Schedules: a record for each, and steps that are taken only from the version that they were decided on.

use crate::{MemoryStore, clock::until, enqueue, state::State};
use async_trait::async_trait;
use jiff::Timestamp;
use windlass_core::{
    DueSchedules, JobId, Result, Schedule, ScheduleFilter, SchedulePut, ScheduleRecord, ScheduleStep,
    ScheduleStore, SchedulesPut,
};

#[async_trait]
impl ScheduleStore for MemoryStore {
    async fn put_schedules(&self, schedules: &[Schedule], prune: Option<&str>) -> Result<SchedulesPut> {
        self.limits.check_schedules(schedules)?;
        let put = put_all(&mut *self.state().await, schedules, prune);
        if !put.pruned.is_empty() || put.puts.iter().any(|put| *put != SchedulePut::Unchanged) {
            self.requests.tell_of_schedules();
        }
        Ok(put)
    }

    async fn schedules(&self, filter: &ScheduleFilter) -> Result<Vec<ScheduleRecord>> {
        filter.check()?;
        let state = self.state().await;
        let fits = |record: &&ScheduleRecord| {
            filter.name.as_ref().is_none_or(|name| record.name == *name)
                && filter.source.as_ref().is_none_or(|source| record.source == *source)
                && filter.after.as_ref().is_none_or(|after| record.name > *after)
        };
        let limit = filter.limit.min(ScheduleFilter::MOST) as usize;
        Ok(state.schedules.values().filter(fits).take(limit).cloned().collect())
    }

    async fn remove_schedules(&self, names: &[String]) -> Result<Vec<bool>> {
        let mut state = self.state().await;
        let removed = names.iter().map(|name| state.schedules.remove(name).is_some()).collect();
        drop(state);
        self.requests.tell_of_schedules();
        Ok(removed)
    }

    async fn pause_schedules(&self, names: &[String], paused: bool) -> Result<Vec<bool>> {
        let mut state = self.state().await;
        let found = names.iter().map(|name| pause(&mut state, name, paused)).collect();
        drop(state);
        self.requests.tell_of_schedules();
        Ok(found)
    }

    async fn due_schedules(&self, limit: u32) -> Result<DueSchedules> {
        let state = self.state().await;
        let now = state.now();
        let mut waiting: Vec<_> =
            state.schedules.values().filter_map(|record| Some((record.due_at?, record))).collect();
        waiting.sort_by_key(|(due_at, record)| (*due_at, &record.name));
        let due = waiting.iter().take_while(|(due_at, _)| *due_at <= now).take(limit as usize);
        let next = waiting.iter().find(|(due_at, _)| *due_at > now);
        Ok(DueSchedules {
            now,
            due: due.map(|(_, record)| (*record).clone()).collect(),
            next_due: next.map(|(due_at, _)| until(now, *due_at)),
        })
    }

    async fn advance_schedules(&self, steps: &[ScheduleStep]) -> Result<Vec<Option<Vec<JobId>>>> {
        for step in steps {
            self.limits.check(&step.jobs)?;
        }
        Ok(self.change(|state| steps.iter().map(|step| advance(state, step)).collect()).await)
    }
}

fn put_all(state: &mut State, schedules: &[Schedule], prune: Option<&str>) -> SchedulesPut {
    let now = state.now();
    let puts = schedules.iter().map(|schedule| put(state, schedule, now)).collect();
    let is_gone = |record: &ScheduleRecord| {
        Some(&*record.source) == prune.filter(|source| !source.is_empty())
            && !schedules.iter().any(|schedule| schedule.name() == record.name)
    };
    let pruned: Vec<_> =
        state.schedules.values().filter(|record| is_gone(record)).map(|record| record.name.clone()).collect();
    pruned.iter().for_each(|name| drop(state.schedules.remove(name)));
    SchedulesPut { puts, pruned }
}

fn put(state: &mut State, schedule: &Schedule, now: Timestamp) -> SchedulePut {
    let (definition, source) = (schedule.to_json(), schedule.source().to_owned());
    state.last.schedule += 1;
    let version = state.last.schedule;
    let Some(record) = state.schedules.get_mut(schedule.name()) else {
        let name = schedule.name().to_owned();
        let mut record = ScheduleRecord::new(name.clone(), source, definition, version, now);
        record.due_at = Some(now);
        state.schedules.insert(name, record);
        return SchedulePut::Created;
    };
    if record.definition == definition && record.source == source {
        return SchedulePut::Unchanged;
    }
    if !record.schedule().is_ok_and(|before| before.ticks_like(schedule)) {
        record.decided = record.decided.max(now);
        record.next_tick = None;
    }
    (record.definition, record.source, record.version) = (definition, source, version);
    record.error = None;
    record.due_at = (!record.paused).then_some(now);
    SchedulePut::Changed
}

fn pause(state: &mut State, name: &str, paused: bool) -> bool {
    let now = state.now();
    state.last.schedule += 1;
    let version = state.last.schedule;
    let Some(record) = state.schedules.get_mut(name) else { return false };
    if record.paused != paused {
        (record.paused, record.version) = (paused, version);
        record.next_tick = None;
        record.due_at = (!paused).then_some(now);
        if !paused {
            record.decided = record.decided.max(now);
        }
    }
    true
}

fn advance(state: &mut State, step: &ScheduleStep) -> Option<Vec<JobId>> {
    state.schedules.get(&step.name).filter(|record| record.version == step.version)?;
    let (ids, now) = (enqueue::enqueue(state, &step.jobs), state.now());
    state.last.schedule += 1;
    let version = state.last.schedule;
    let record = state.schedules.get_mut(&step.name)?;
    record.version = version;
    (record.decided, record.next_tick, record.due_at) = (step.decided, step.next_tick, step.due_at);
    (record.last_tick, record.queued_tick) = (step.last_tick, step.queued_tick);
    record.error.clone_from(&step.error);
    if let Some(last) = ids.last() {
        (record.last_job, record.last_enqueued_at) = (Some(*last), Some(now));
    }
    Some(ids)
}
