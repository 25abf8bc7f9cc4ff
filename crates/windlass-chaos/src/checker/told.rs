//! I14: a consumer of events that reads on from its cursor, whatever died meanwhile, is told everything that happened to each job once, in
//! the order in which it happened.
//!
//! What happened to a job is a walk: it waits, a worker has it, it ends. Each event is a step, so one that is missing, comes twice or too early
//! leaves a step that cannot be made, or another end than the final dump has.

use super::{Invariant, Report, faults::Faults, holds::Job, holds::Jobs};
use crate::history::{Fate, Fault, History, Outcome, What};
use std::collections::BTreeMap;
use windlass_core::{
    EventType::{
        self, Cancelled, Completed, Deleted, Discarded, Enqueued, Failed, Rescued, Retried, Returned,
        Snoozed, Started,
    },
    JobState,
};

pub(super) fn check(history: &History, jobs: &Jobs, faults: &Faults, report: &mut Report) {
    let stories = stories(history);
    let nothing_forgotten = faults.begins_of(&[Fault::DatabaseCrash]).is_empty();
    for (id, story) in &stories {
        let walked =
            story.iter().try_fold(Where::Nowhere, |place, event| place.after(*event).ok_or((place, *event)));
        let job = jobs.by_id.get(id);
        let wrong = match walked {
            Err((place, event)) => Some(format!("{event} of a job that {place:?}")),
            Ok(place) => job.and_then(|job| unlike(job, place, story, nothing_forgotten)),
        };
        if let Some(wrong) = wrong {
            report.violate(Invariant::I14, Some(*id), format!("{wrong}; told was {}", names(story)));
        }
    }
    for job in jobs.by_id.values() {
        let is_known = (job.acked_key.is_some() || !job.records.is_empty()) && !job.in_doubt;
        if is_known && !stories.contains_key(&job.id) {
            report.violate(Invariant::I14, Some(job.id), "nothing was told of it".to_owned());
        }
    }
}

/// What was told of each job, in order. A page that its reader did not keep does not count, and was read anew under its number.
fn stories(history: &History) -> BTreeMap<i64, Vec<EventType>> {
    let mut pages: BTreeMap<u64, (i64, Vec<(i64, EventType)>)> = BTreeMap::new();
    for recorded in &history.events {
        if let What::Told { page, id, event } = recorded.event.what {
            let (number, _) = history.processes[recorded.process as usize];
            let (reader, events) = pages.entry(page).or_default();
            if *reader != number {
                *reader = number;
                events.clear();
            }
            events.push((id, event.0));
        }
    }
    let mut stories: BTreeMap<i64, Vec<EventType>> = BTreeMap::new();
    for (id, event) in pages.into_values().flat_map(|(_, events)| events) {
        stories.entry(id).or_default().push(event);
    }
    stories
}

/// Where a job is, as far as events tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    Nowhere,
    Waits,
    Runs,
    Completed,
    Dead(JobState),
    Deleted,
}

impl Where {
    fn after(self, event: EventType) -> Option<Self> {
        Some(match (self, event) {
            (Self::Nowhere, Enqueued) | (Self::Waits | Self::Dead(_), Retried) => Self::Waits,
            (Self::Waits, Started) => Self::Runs,
            (Self::Runs, Failed | Snoozed | Returned | Rescued) => Self::Waits,
            (Self::Runs, Completed) => Self::Completed,
            (Self::Waits | Self::Runs, Cancelled) => Self::Dead(JobState::Cancelled),
            (Self::Waits | Self::Runs, Discarded) => Self::Dead(JobState::Discarded),
            (Self::Waits | Self::Dead(_), Deleted) => Self::Deleted,
            _ => return None,
        })
    }
}

/// What of the job's history its story does not have, if anything.
fn unlike(job: &Job, place: Where, story: &[EventType], nothing_forgotten: bool) -> Option<String> {
    if job.rolled_back {
        return Some("told of, and rolled back".to_owned());
    }
    if let Some(record) = job.records.first() {
        let ended = match place {
            Where::Completed => Some(JobState::Completed),
            Where::Dead(state) => Some(state),
            _ => None,
        };
        if ended != Some(record.state).filter(|state| state.is_final()) {
            return Some(format!("it is {:?} in the end, and {place:?} by what was told", record.state));
        }
    }
    // A crash may forget a claim, but none of which a settlement was accepted.
    let accepted = |fate: Fate, outcome: Outcome| fate == Fate::Accepted && outcome != Outcome::Interrupted;
    let settled =
        |hold: &&super::holds::Hold| hold.answers.iter().any(|(fate, outcome, ..)| accepted(*fate, *outcome));
    let starts = job.holds.iter().filter(|hold| nothing_forgotten || settled(hold)).count();
    let told = story.iter().filter(|event| **event == Started).count();
    (told < starts).then(|| format!("it started {starts} times"))
}

fn names(story: &[EventType]) -> String {
    story.iter().map(|event| event.as_str()).collect::<Vec<_>>().join(", ")
}
