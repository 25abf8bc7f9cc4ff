use crate::{
    clock::{later, until},
    due_keys,
    job::Place,
    state::{State, Worker},
};
use jiff::Timestamp;
use std::{sync::Arc, time::Duration};
use windlass_core::{
    Disposition, EventType, Heartbeat, JobId, JobState, Load, Promoted, RescueReport, Result, WorkerId,
    WorkerSpec,
};

/// Sharing a worker with a killer never raises a job's crash count above this: from here on the engine runs it
/// alone, and only a crash that it then causes counts.
const INNOCENT_CRASHES: u16 = 2;

pub(crate) fn register(state: &mut State, spec: &WorkerSpec) -> WorkerId {
    for queue in &spec.queues {
        state.queue(queue);
    }
    state.last.worker += 1;
    let (id, now) = (WorkerId(state.last.worker), state.now());
    let worker = Worker {
        spec: spec.clone(),
        started_at: now,
        heartbeat_at: now,
        in_touch_since: now,
        ended_at: None,
        suspect: None,
        draining: false,
        load: Load::default(),
    };
    state.workers.insert(id, worker);
    id
}

/// Changes a live worker.
pub(crate) fn with_worker(state: &mut State, id: WorkerId, change: impl FnOnce(&mut Worker)) -> Result<()> {
    state.fence(id)?;
    state.workers.get_mut(&id).map(change);
    Ok(())
}

/// A clean end: everything that the worker holds is available again. Repeating it does nothing.
pub(crate) fn deregister(state: &mut State, id: WorkerId) {
    if state.fence(id).is_ok() {
        for job in end(state, id) {
            if state.is_cancel_asked(job) {
                state.count_attempt(job);
            }
            state.make_available(job);
            state.note_back(job, EventType::Returned, None);
        }
    }
}

/// Ends a worker. Returns what it held, in the order in which that was handed out.
fn end(state: &mut State, id: WorkerId) -> Vec<JobId> {
    let now = state.now();
    if let Some(worker) = state.workers.get_mut(&id) {
        worker.ended_at = Some(now);
    }
    state.leader = state.leader.filter(|(leader, _)| *leader != id);
    state.queues.values_mut().for_each(|queue| queue.forget(id));
    let claims = state.claims.values().filter(|claim| claim.worker == id);
    let mut held: Vec<JobId> = claims.flat_map(|claim| claim.open.iter().copied()).collect();
    held.sort_by_key(|id| state.jobs[id].held.map(|held| held.order));
    held
}

pub(crate) fn lease_end(worker: &Worker) -> Timestamp {
    later(worker.heartbeat_at, worker.spec.lease)
}

/// A sign of life. What the worker has to know.
pub(crate) fn heartbeat(state: &mut State, id: WorkerId, load: Load) -> Result<Heartbeat> {
    let now = state.now();
    with_worker(state, id, |worker| {
        if now > later(worker.heartbeat_at, worker.spec.lease / 2) {
            worker.in_touch_since = now;
        }
        worker.heartbeat_at = now;
        worker.load = load;
    })?;
    let claims = state.claims.values().filter(|claim| claim.worker == id);
    let held = claims.flat_map(|claim| claim.open.iter().copied());
    let mut heartbeat = Heartbeat::default();
    heartbeat.drain = state.workers[&id].draining;
    heartbeat.cancel = held.filter(|job| state.jobs[job].cancel_asked).collect();
    let of_worker = |name: &str| state.workers[&id].spec.queues.iter().any(|queue| queue == name);
    let limited = state.queues.iter().filter(|(name, queue)| !queue.limits().is_none() && of_worker(name));
    heartbeat.limited = limited.map(|(name, _)| Arc::clone(name)).collect();
    Ok(heartbeat)
}

/// Asks a worker to take no more jobs.
pub(crate) fn drain(state: &mut State, id: WorkerId) -> Result<()> {
    let takes_jobs = |worker: &&mut Worker| worker.ended_at.is_none() && !worker.spec.queues.is_empty();
    let worker = state.workers.get_mut(&id).filter(takes_jobs);
    worker.ok_or_else(|| WorkerSpec::none_to_drain(id))?.draining = true;
    Ok(())
}

/// Takes the jobs of workers whose lease has ended, of those with a lease no longer than the rescuer has been in
/// touch: while nobody could reach the store the leases of the living ended too.
pub(crate) fn rescue(state: &mut State, rescuer: WorkerId) -> RescueReport {
    let now = state.now();
    let in_touch_since = match state.workers.get(&rescuer) {
        Some(Worker { ended_at: None, heartbeat_at, in_touch_since, spec, .. })
            if later(*heartbeat_at, spec.lease / 2) >= now =>
        {
            *in_touch_since
        }
        _ => Timestamp::MAX,
    };
    let live = || state.workers.iter().filter(|(_, worker)| worker.ended_at.is_none());
    let is_dead =
        |worker: &Worker| lease_end(worker) < now && later(in_touch_since, worker.spec.lease) <= now;
    let dead: Vec<_> = live().filter(|(_, worker)| is_dead(worker)).map(|(id, _)| *id).collect();
    let mut report = RescueReport { workers: dead, ..RescueReport::default() };
    for worker in report.workers.clone() {
        let suspect = state.workers[&worker].suspect;
        for id in end(state, worker) {
            match rescue_job(state, id, suspect) {
                Some(JobState::Available) => report.rescued += 1,
                Some(JobState::Discarded) => report.discarded += 1,
                _ => {}
            }
        }
    }
    let live = state.workers.values().filter(|worker| worker.ended_at.is_none());
    report.next_end = live.map(lease_end).min().map(|ends| until(now, ends));
    report
}

/// Counts the crash. What became of the job: it is available again, discarded where it is known to kill its workers,
/// or cancelled where that was asked for.
fn rescue_job(state: &mut State, id: JobId, suspect: Option<JobId>) -> Option<JobState> {
    let (now, most) = (state.now(), state.settings.max_crashes);
    let job = state.jobs.get_mut(&id)?;
    let alone = suspect == Some(id);
    job.crash_count += u16::from(alone || (suspect.is_none() && job.crash_count < INNOCENT_CRASHES));
    let crashes = job.crash_count;
    let is_loop = alone && crashes >= most && !job.cancel_asked;
    if is_loop || job.cancel_asked {
        job.attempt += 1;
    }
    if is_loop {
        let reason = Disposition::crash_loop(crashes);
        state.move_job(id, Place::Discarded { at: now, reason });
    } else {
        state.make_available(id);
        state.note_back(id, EventType::Rescued, None);
    }
    state.jobs.get(&id).map(|job| job.place.state())
}

/// Makes due jobs available, in the order in which they are due. Also whether the rate of a key allows more.
pub(crate) fn promote(state: &mut State, limit: u32) -> (Promoted, bool) {
    let now = state.now();
    let due: Vec<JobId> =
        state.due.iter().take_while(|(at, _)| *at <= now).take(limit as usize).map(|(_, id)| *id).collect();
    for id in &due {
        state.make_available(*id);
    }
    let freed = due_keys::forget_past(state);
    let next_due = state.due.first().map(|(at, _)| until(now, *at));
    let next_due = next_due.into_iter().chain(due_keys::next_due(state, None)).min();
    (Promoted { count: due.len() as u64, next_due }, freed)
}

/// Takes or renews leadership. Whether this worker leads now; one that was ended does not.
pub(crate) fn lead(state: &mut State, worker: WorkerId, term: Duration) -> bool {
    let now = state.now();
    let free = state.fence(worker).is_ok()
        && state.leader.is_none_or(|(leader, ends)| leader == worker || ends < now);
    if free {
        state.leader = Some((worker, later(now, term)));
    }
    free
}
