use crate::{audit, clock::earlier, deploys, job::Place, keys, retention, state::State, timings, unique};
use windlass_core::{JobId, MaintainReport};

/// Removes what is past its retention.
pub(crate) fn maintain(state: &mut State) -> MaintainReport {
    let now = state.now();
    let young = earlier(now, state.settings.retention);
    let old = retention::past(state);
    let dead = |id: &&JobId| !matches!(state.jobs[*id].place, Place::Completed { .. });
    let removed_dead = old.iter().filter(dead).count() as u64;
    for id in &old {
        state.remove(*id);
    }
    let jobs = &state.jobs;
    state.claims.retain(|_, claim| claim.jobs.iter().any(|id| jobs.contains_key(id)));
    state.keys.retain(|_, (at, _)| *at > young);
    unique::forget(state);
    keys::forget(state);
    state.forget_events();
    state.counters.forget(now);
    deploys::mark(state);
    audit::forget(state);
    timings::forget(state);
    state.workers.retain(|_, worker| worker.ended_at.is_none_or(|at| at > young));
    MaintainReport { rotated: false, truncated: u32::from(!old.is_empty()), rehomed: 0, removed_dead }
}
