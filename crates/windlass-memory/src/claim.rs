use crate::{
    clock::earlier,
    job::{Job, Place},
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
        for lane in lanes(state, demand) {
            let ids = pick(state, request.worker, lane, left, demand.max_bytes, &mut bytes);
            if ids.is_empty() {
                continue;
            }
            left -= ids.len();
            claimed.claims.push(hand_out(state, request.worker, lane, &ids));
            if bytes >= demand.max_bytes {
                claimed.contended = !state.lanes[lane].is_empty();
                break;
            }
        }
    }
    Ok(claimed)
}

/// The lanes of a queue that have jobs, in the order in which they are served: best priority first, but the one
/// that has waited longest before all others once that is too long.
fn lanes(state: &State, demand: &QueueDemand) -> Vec<usize> {
    let of_queue = |lane: &usize| state.lanes[*lane].queue == demand.queue && !state.lanes[*lane].is_empty();
    let mut lanes: Vec<usize> = (0..state.lanes.len()).filter(of_queue).collect();
    lanes.sort_by_key(|lane| state.lanes[*lane].priority);
    let late = earlier(state.now(), PATIENCE);
    let waits = |(nth, lane): (usize, &usize)| {
        let lane = &state.lanes[*lane];
        let (_, next) = lane.available.first_key_value()?;
        Some((lane.claimed_at.max(state.jobs[next].enqueued_at), nth)).filter(|(since, _)| *since < late)
    };
    if let Some((_, starving)) = lanes.iter().enumerate().skip(1).filter_map(waits).min() {
        lanes[..=starving].rotate_right(1);
    }
    lanes
}

/// The next jobs of a lane: those that waited for this worker's handlers, then available ones.
fn pick(
    state: &State,
    worker: WorkerId,
    lane: usize,
    most: usize,
    max_bytes: u64,
    bytes: &mut u64,
) -> Vec<JobId> {
    let lane = &state.lanes[lane];
    let waiting =
        lane.no_handler.iter().filter(|id| knows(state, worker, **id)).chain(lane.available.values());
    let mut ids = Vec::new();
    for id in waiting.take(most) {
        let size = state.jobs[id].args.len() as u64;
        // The first job of a queue comes whatever its size.
        if *bytes > 0 && *bytes + size > max_bytes {
            *bytes = max_bytes;
            break;
        }
        *bytes += size;
        ids.push(*id);
    }
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
    match lane.filter(is_open).filter(|_| ids.iter().all(may)) {
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
        jobs,
    }
}
