use crate::{
    clock::earlier,
    due_keys,
    job::{Job, Place},
    keys::{self, Room},
    lane::Lane,
    state::{ClaimState, State},
};
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use windlass_core::{
    Claim, ClaimRef, ClaimRequest, Claimed, Error, ErrorKind, JobId, QueueDemand, Result, WorkerId,
};

/// How long the jobs of a lane may wait behind better lanes: no priority starves.
const PATIENCE: Duration = Duration::from_secs(10);

/// Hands out jobs, best priority first.
pub(crate) fn claim(state: &mut State, request: &ClaimRequest) -> Result<Claimed> {
    state.fence(request.worker)?;
    let mut claimed = Claimed::default();
    for demand in request.queues.iter().filter(|demand| demand.limit > 0) {
        let Some(queue) = state.queues.get(&*demand.queue) else { continue };
        if queue.is_closed_to(request.worker) {
            if !queue.paused {
                claimed.limited.push(Arc::clone(&demand.queue));
            }
            continue;
        }
        let (mut left, mut bytes) = (demand.limit as usize, 0);
        for lane in lanes(state, request.worker, demand) {
            let ids = pick(state, request.worker, lane, left, demand.max_bytes, &mut bytes);
            if ids.is_empty() {
                continue;
            }
            left -= ids.len();
            claimed.claims.push(hand_out(state, request.worker, lane, &ids));
            if bytes >= demand.max_bytes {
                let mut room = Room::of(state, &demand.queue);
                claimed.contended = !next(state, request.worker, lane, room.as_mut(), 1).is_empty();
                break;
            }
        }
        let next_due = due_keys::next_due(state, Some(&demand.queue));
        claimed.next_due = claimed.next_due.into_iter().chain(next_due).min();
    }
    Ok(claimed)
}

/// The lanes of a queue that have jobs for the worker, in the order in which they are served: best priority first, but the one
/// that has waited longest before all others once that is too long.
fn lanes(state: &State, worker: WorkerId, demand: &QueueDemand) -> Vec<usize> {
    let room = Room::of(state, &demand.queue);
    let admits = |id: &&JobId| room.as_ref().is_none_or(|room| room.admits(&state.jobs[*id]));
    let has_jobs = |lane: &Lane| in_line(state, worker, lane).any(|id| admits(&id));
    let of_queue = |lane: &Lane| lane.queue == demand.queue && has_jobs(lane);
    let mut lanes: Vec<usize> = (0..state.lanes.len()).filter(|lane| of_queue(&state.lanes[*lane])).collect();
    lanes.sort_by_key(|lane| state.lanes[*lane].priority);
    let late = earlier(state.now(), PATIENCE);
    let waits = |(nth, lane): (usize, &usize)| {
        let lane = &state.lanes[*lane];
        let next = in_line(state, worker, lane).find(admits)?;
        Some((lane.claimed_at.max(state.jobs[next].enqueued_at), nth)).filter(|(since, _)| *since < late)
    };
    if let Some((_, starving)) = lanes.iter().enumerate().skip(1).filter_map(waits).min() {
        lanes[..=starving].rotate_right(1);
    }
    lanes
}

/// The jobs of a lane: those that waited for this worker's handlers, then available ones.
fn in_line<'a>(state: &'a State, worker: WorkerId, lane: &'a Lane) -> impl Iterator<Item = &'a JobId> {
    lane.no_handler.iter().filter(move |id| knows(state, worker, **id)).chain(lane.available.values())
}

/// The next jobs of a lane, at most so many; where the queue knows keys, in their turn.
fn next<'a>(
    state: &'a State,
    worker: WorkerId,
    lane: usize,
    room: Option<&mut Room<'a>>,
    most: usize,
) -> Vec<JobId> {
    let lane = &state.lanes[lane];
    let in_line = in_line(state, worker, lane);
    match room {
        Some(room) => room.in_turn(&lane.turns, in_line.map(|id| &state.jobs[id]), most),
        None => in_line.take(most).copied().collect(),
    }
}

/// All that a claim without bounds would hand out of a queue, in its order.
pub(crate) fn claimable(state: &State, worker: WorkerId, queue: &str) -> Vec<JobId> {
    if state.queues.get(queue).is_none_or(|queue| queue.is_closed_to(worker)) {
        return Vec::new();
    }
    let mut room = Room::of(state, queue);
    let lanes = lanes(state, worker, &QueueDemand::new(queue, u32::MAX)).into_iter();
    lanes.flat_map(|lane| next(state, worker, lane, room.as_mut(), usize::MAX)).collect()
}

/// The next jobs of a lane as far as their args fit.
fn pick(
    state: &State,
    worker: WorkerId,
    lane: usize,
    most: usize,
    max_bytes: u64,
    bytes: &mut u64,
) -> Vec<JobId> {
    let mut room = Room::of(state, &state.lanes[lane].queue);
    let mut ids = next(state, worker, lane, room.as_mut(), most);
    let mut fits = |id: &JobId| {
        let size = state.jobs[id].args.len() as u64;
        // The first job of a queue comes whatever its size.
        let fits = *bytes == 0 || *bytes + size <= max_bytes;
        *bytes = if fits { *bytes + size } else { max_bytes };
        fits
    };
    let count = ids.iter().take_while(|id| fits(id)).count();
    ids.truncate(count);
    ids
}

/// Hands out these very jobs, if the worker may have them.
pub(crate) fn claim_these(state: &mut State, worker: WorkerId, ids: &[JobId]) -> Result<Claim> {
    state.fence(worker)?;
    let lane = ids.first().and_then(|id| state.jobs.get(id)).map(|job| job.lane);
    let may = |id: &JobId| match state.jobs.get(id) {
        Some(job) if Some(job.lane) != lane => false,
        Some(Job { place: Place::Available(_), .. }) => true,
        Some(Job { place: Place::NoHandler, .. }) => knows(state, worker, *id),
        _ => false,
    };
    let is_open = |lane: &usize| {
        let queue = state.queues.get(&state.lanes[*lane].queue);
        queue.is_some_and(|queue| !queue.is_closed_to(worker))
    };
    match lane.filter(is_open).filter(|_| ids.iter().all(may) && keys::admit(state, ids)) {
        Some(lane) => Ok(hand_out(state, worker, lane, ids)),
        None => Err(Error::new(ErrorKind::NotFound, format!("jobs {ids:?} cannot be claimed together now"))),
    }
}

/// Whether the worker has a handler for the job.
fn knows(state: &State, worker: WorkerId, id: JobId) -> bool {
    let kinds = &state.workers[&worker].spec.kinds;
    kinds.is_empty() || kinds.iter().any(|kind| **kind == *state.jobs[&id].kind)
}

fn hand_out(state: &mut State, worker: WorkerId, lane: usize, ids: &[JobId]) -> Claim {
    state.last.claim += 1;
    let now = state.now();
    state.lanes[lane].claimed_at = now;
    keys::take_turns(state, lane, ids);
    let (number, token) = (state.last.claim, fastrand::u64(..));
    let reference = ClaimRef(token, number);
    let jobs = ids.iter().map(|id| {
        let order = state.hand_out(*id, worker, reference);
        state.jobs[id].claimed(order, now)
    });
    let jobs = jobs.collect();
    let open: BTreeSet<JobId> = ids.iter().copied().collect();
    state.claims.insert(number, ClaimState { token, worker, jobs: ids.to_vec(), open });
    Claim {
        reference,
        queue: Arc::clone(&state.lanes[lane].queue),
        priority: state.lanes[lane].priority,
        claimed_at: Some(now),
        jobs,
    }
}
