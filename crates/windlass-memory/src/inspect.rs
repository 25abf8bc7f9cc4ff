use crate::{
    clock::later,
    due_keys,
    job::{Job, Place},
    keys::Room,
    lane::Lane,
    queue::Queue,
    state::{State, Worker},
    workers::lease_end,
};
use std::sync::Arc;
use windlass_core::{
    Attributes, Coming, JobId, JobRecord, JobState, QueueFilter, QueueStats, StoreStatus, WorkerId,
    WorkerRecord,
};

/// One job with its errors and what its handlers said.
pub(crate) fn job(state: &State, id: JobId) -> Option<JobRecord> {
    let job = state.jobs.get(&id)?;
    let report = job.said.as_ref().map(|said| Box::new(said.report.clone()));
    Some(JobRecord { errors: job.errors.clone(), report, ..record(state, job) })
}

/// One job as it stands in lists.
pub(crate) fn record(state: &State, job: &Job) -> JobRecord {
    let lane = &state.lanes[job.lane];
    let attributes: Attributes = job.attributes.as_deref().cloned().unwrap_or_default();
    let begun = matches!(job.place, Place::Running | Place::Completed { .. });
    let held = job.held.filter(|_| begun);
    let (scheduled_at, reason, result) = match &job.place {
        Place::Scheduled(at) | Place::Retryable(at) => (Some(*at), None, None),
        Place::NoHandler => (None, Some(JobRecord::NO_HANDLER.to_owned()), None),
        Place::Cancelled { reason, .. } | Place::Discarded { reason, .. } => {
            (None, Some(reason.clone()), None)
        }
        Place::Completed { result, .. } => (None, None, result.clone()),
        Place::Available(_) | Place::Running => (None, None, None),
    };
    JobRecord {
        id: job.id,
        state: job.place.state(),
        kind: job.kind.to_string(),
        queue: lane.queue.to_string(),
        priority: lane.priority,
        attempt: job.attempt + u16::from(begun),
        max_attempts: job.max_attempts,
        crash_count: job.crash_count,
        args: job.args.clone(),
        enqueued_at: job.enqueued_at,
        scheduled_at,
        claimed_at: held.map(|held| held.at),
        claimed_by: held.map(|held| held.worker),
        finished_at: job.place.finished_at(),
        reason,
        key: attributes.key,
        meta: attributes.meta,
        tags: attributes.tags,
        cost: attributes.cost,
        timeout: attributes.timeout,
        retry_policy: attributes.retry_policy,
        expires_at: attributes.expires_at,
        result,
        errors: Vec::new(),
        report: None,
    }
}

/// Queues, by name.
pub(crate) fn queues(state: &State, filter: &QueueFilter) -> Vec<QueueStats> {
    let stats = |(name, queue): (&Arc<str>, &Queue)| {
        let (paused, limits) = (queue.paused, queue.limits());
        let mut stats = QueueStats {
            name: str::to_owned(name),
            paused,
            limits,
            keyed: queue.keys.is_some(),
            ..QueueStats::default()
        };
        for job in state.jobs.values().filter(|job| *state.lanes[job.lane].queue == **name) {
            count(&mut stats, job);
            match job.place {
                Place::Available(_) => {
                    let since = job.available_since;
                    stats.oldest_available_at =
                        Some(stats.oldest_available_at.map_or(since, |at| at.min(since)));
                }
                Place::NoHandler => {
                    let since = job.available_since;
                    stats.no_handler += 1;
                    stats.oldest_no_handler_at =
                        Some(stats.oldest_no_handler_at.map_or(since, |at| at.min(since)));
                }
                _ => {}
            }
        }
        stats
    };
    let most = filter.limit.map_or(usize::MAX, |limit| limit as usize);
    state.queues.iter().filter(|(name, _)| filter.matches(name)).take(most).map(stats).collect()
}

fn count(stats: &mut QueueStats, job: &Job) {
    let job_state = job.place.state();
    *match job_state {
        JobState::Scheduled => &mut stats.scheduled,
        JobState::Running => &mut stats.running,
        JobState::Retryable => &mut stats.retryable,
        JobState::Completed => &mut stats.completed,
        JobState::Cancelled => &mut stats.cancelled,
        JobState::Discarded => &mut stats.discarded,
        JobState::Available => &mut stats.available,
    } += 1;
}

/// Whether a lane is of one of these queues, and that is not paused.
fn is_open(state: &State, queues: &[String], lane: &Lane) -> bool {
    queues.iter().any(|queue| **queue == *lane.queue)
        && state.queues.get(&lane.queue).is_some_and(|queue| !queue.paused)
}

/// Whether a worker on these queues that knows these kinds would find a job, now or when what is due is promoted.
pub(crate) fn any_available(state: &State, queues: &[String], kinds: &[String]) -> bool {
    let is_open = |lane: &&Lane| is_open(state, queues, lane);
    let known = |id: &JobId| kinds.is_empty() || kinds.iter().any(|kind| **kind == *state.jobs[id].kind);
    let now = state.now();
    let due = state.due.iter().take_while(|(at, _)| *at <= now);
    let has_room = |lane: &Lane| {
        let room = Room::of(state, &lane.queue);
        lane.available.values().any(|id| room.as_ref().is_none_or(|room| room.admits(&state.jobs[id])))
    };
    let is_wanted = |id: &JobId| is_open(&&state.lanes[state.jobs[id].lane]);
    let mut lanes = state.lanes.iter().filter(is_open);
    lanes.any(|lane| has_room(lane) || lane.no_handler.iter().any(known))
        || due.map(|(_, id)| id).any(is_wanted)
}

/// What of these queues becomes available by itself, but for what waits for its time.
pub(crate) fn coming(state: &State, queues: &[String]) -> Coming {
    let now = state.now();
    let open =
        state.queues.iter().filter(|(name, queue)| queues.iter().any(|q| **q == ***name) && !queue.paused);
    let mut coming = Coming {
        key_due: open.filter_map(|(name, _)| due_keys::next_due(state, Some(name))).min(),
        ..Coming::default()
    };
    for claim in state.claims.values() {
        let worker = state.workers.get(&claim.worker);
        let Some(worker) = worker.filter(|worker| worker.ended_at.is_none() && lease_end(worker) < now)
        else {
            continue;
        };
        let of_these = |id: &&JobId| is_open(state, queues, &state.lanes[state.jobs[*id].lane]);
        let held = claim.open.iter().filter(of_these).count() as u64;
        if held > 0 {
            coming.held += held;
            coming.lease = coming.lease.max(worker.spec.lease);
        }
    }
    coming
}

/// The state of the store.
pub(crate) fn status(state: &State) -> StoreStatus {
    let mut workers: Vec<_> =
        state.workers.iter().map(|(id, worker)| worker_record(state, *id, worker)).collect();
    workers.sort_by_key(|worker| (!worker.live, std::cmp::Reverse(worker.id)));
    let jobs: usize = state.jobs.values().map(|job| size_of::<Job>() + job.args.len()).sum();
    let size_bytes = (size_of::<State>() + jobs) as u64;
    StoreStatus::new("memory".to_owned(), 1, size_bytes, workers)
}

fn worker_record(state: &State, id: WorkerId, worker: &Worker) -> WorkerRecord {
    WorkerRecord {
        id,
        name: worker.spec.name.clone(),
        queues: worker.spec.queues.clone(),
        started_at: worker.started_at,
        heartbeat_at: worker.heartbeat_at,
        live: worker.ended_at.is_none() && later(worker.heartbeat_at, worker.spec.lease) >= state.now(),
        draining: worker.draining,
        program: worker.spec.program.clone(),
        load: worker.load,
    }
}
