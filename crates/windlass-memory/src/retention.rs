use crate::{clock::earlier, state::State};
use std::collections::HashMap;
use windlass_core::{JobId, JobState, Result, Retention, RetentionRule};

/// Keeps checked rules, all or none.
pub(crate) fn set(state: &mut State, rules: &[RetentionRule]) -> Result<()> {
    let mut kept = state.retention.clone();
    for rule in rules {
        let place = (rule.queue.clone(), rule.outcome);
        match rule.is_empty() {
            true => drop(kept.remove(&place)),
            false => drop(kept.insert(place, rule.clone())),
        }
    }
    if kept.len() > RetentionRule::MAX_RULES {
        return Err(RetentionRule::too_many(kept.len()));
    }
    state.retention = kept;
    Ok(())
}

/// The finished jobs that are past what is kept, by age or by count.
pub(crate) fn past(state: &State) -> Vec<JobId> {
    let rules: Vec<RetentionRule> = state.retention.values().cloned().collect();
    let mut kept: HashMap<(&str, JobState), (Retention, u64)> = HashMap::new();
    let mut past = Vec::new();
    for (at, id) in state.finished.iter().rev() {
        let job = &state.jobs[id];
        let (queue, outcome) = (&*state.lanes[job.lane].queue, job.place.state());
        let (retention, count) = kept
            .entry((queue, outcome))
            .or_insert_with(|| (Retention::of(&rules, &state.settings, queue, outcome), 0));
        *count += 1;
        if *at <= earlier(state.now(), retention.age) || retention.count.is_some_and(|most| *count > most) {
            past.push(*id);
        }
    }
    past
}
