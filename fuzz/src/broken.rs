//! Breaks one promise in a valid history: each way says where it could, or that there was no place for it.

use super::queue::Choices;
use std::collections::{HashMap, HashSet};
use windlass_chaos::{
    checker::Invariant::{self, I1, I2, I3, I4, I5, I6, I7, I9, I12, I13},
    history::{Event, Fate, Fault, History, Outcome, Phase, Recorded, What},
};
use windlass_core::JobState;

/// A way to break a history; false: it has no place for it, and is as it was.
pub type Break = fn(&mut History, &mut Choices<'_>) -> bool;

/// Every way: its name, and what it breaks among others.
pub const BREAKS: &[(&str, Invariant, Break)] = &[
    ("a record is lost", I1, record_lost),
    ("a finished job is available again", I1, record_available),
    ("two records of one job", I13, record_doubled),
    ("a completed job is cancelled", I13, record_cancelled),
    ("a completed job is discarded", I13, record_discarded),
    ("a job has the key of another", I2, record_key),
    ("one key, two acknowledged jobs", I7, acked_twice),
    ("nobody enqueued it", I2, never_sent),
    ("its enqueue failed", I2, enqueue_failed),
    ("its transaction was rolled back", I2, rolled_back),
    ("started without a claim", I2, unclaimed_start),
    ("started twice under one claim", I2, started_twice),
    ("args of another job", I7, foreign_args),
    ("handed out while another ran it", I5, doubled_claim),
    ("handed out while another ran it, and never settled", I3, doubled_claim_unsettled),
    ("handed out after its end", I13, claimed_after_end),
    ("attempts jump", I6, attempts_jump),
    ("a crash count is forgotten", I6, crashes_forgotten),
    ("a fenced worker's write is accepted", I5, fenced_write),
    ("a write of a worker that holds nothing is accepted", I5, stray_write),
    ("completed, though the write was refused", I5, refused_and_done),
    ("more handlers than slots", I9, too_many),
    ("no fault explains the second start", I4, unexplained),
    ("a job is stuck", I12, stuck),
];

fn find(history: &History, choices: &mut Choices<'_>, wanted: impl Fn(&What) -> bool) -> Option<usize> {
    let all: Vec<usize> =
        (0..history.events.len()).filter(|at| wanted(&history.events[*at].event.what)).collect();
    choices.pick(&all)
}

fn what(history: &History, at: usize) -> What {
    history.events[at].event.what
}

fn what_mut(history: &mut History, at: usize) -> &mut What {
    &mut history.events[at].event.what
}

/// Adds an event right behind another, by any process.
fn insert(history: &mut History, behind: usize, process: u32, what: What) {
    let at = history.events[behind].event.at + 1;
    history.events.insert(behind + 1, Recorded { process, event: Event { at, what } });
}

fn ids(history: &History, wanted: impl Fn(&What) -> Option<i64>) -> HashSet<i64> {
    history.events.iter().filter_map(|recorded| wanted(&recorded.event.what)).collect()
}

fn retried(history: &History) -> HashSet<i64> {
    ids(history, |what| match *what {
        What::RetryAsked { id, .. } => Some(id),
        _ => None,
    })
}

fn acked(history: &History) -> HashSet<i64> {
    ids(history, |what| match *what {
        What::EnqueueAcked { id, .. } => Some(id),
        _ => None,
    })
}

/// A record in the final dump of a job that was acknowledged, in this state.
fn record(history: &History, choices: &mut Choices<'_>, wanted: Option<JobState>) -> Option<usize> {
    let acked = acked(history);
    find(history, choices, |what| match what {
        What::Stored { id, state, .. } => acked.contains(id) && wanted.is_none_or(|wanted| wanted == *state),
        _ => false,
    })
}

fn record_lost(history: &mut History, choices: &mut Choices<'_>) -> bool {
    let Some(at) = record(history, choices, None) else { return false };
    history.events.remove(at);
    true
}

fn set_state(history: &mut History, at: usize, new: JobState) -> bool {
    if let What::Stored { state, .. } = what_mut(history, at) {
        *state = new;
    }
    true
}

fn record_available(history: &mut History, choices: &mut Choices<'_>) -> bool {
    let Some(at) = record(history, choices, None) else { return false };
    set_state(history, at, JobState::Available)
}

fn stuck(history: &mut History, choices: &mut Choices<'_>) -> bool {
    let drained = find(history, choices, |what| matches!(what, What::Phase { phase: Phase::Drained }));
    let (Some(drained), Some(at)) = (drained, record(history, choices, None)) else { return false };
    *what_mut(history, drained) = What::Phase { phase: Phase::Stuck };
    set_state(history, at, JobState::Running)
}

fn record_doubled(history: &mut History, choices: &mut Choices<'_>) -> bool {
    let Some(at) = record(history, choices, None) else { return false };
    let Recorded { process, event } = history.events[at];
    insert(history, at, process, event.what);
    true
}

/// Another final state than its accepted end, of a job that nobody cancelled or retried by hand.
fn record_otherwise(history: &mut History, choices: &mut Choices<'_>, new: JobState) -> bool {
    let asked = ids(history, |what| match *what {
        What::RetryAsked { id, .. } | What::CancelAsked { id, .. } => Some(id),
        What::Finished { id, outcome: Outcome::Cancel, .. } if new == JobState::Cancelled => Some(id),
        _ => None,
    });
    let ended = accepted_completions(history);
    let at = find(history, choices, |what| match what {
        What::Stored { id, state: JobState::Completed, .. } => !asked.contains(id) && ended.contains(id),
        _ => false,
    });
    at.is_some_and(|at| set_state(history, at, new))
}

fn accepted_completions(history: &History) -> HashSet<i64> {
    ids(history, |what| match *what {
        What::Settled { id, fate: Fate::Accepted, outcome: Outcome::Complete, .. } => Some(id),
        _ => None,
    })
}

fn record_cancelled(history: &mut History, choices: &mut Choices<'_>) -> bool {
    record_otherwise(history, choices, JobState::Cancelled)
}

fn record_discarded(history: &mut History, choices: &mut Choices<'_>) -> bool {
    record_otherwise(history, choices, JobState::Discarded)
}

fn record_key(history: &mut History, choices: &mut Choices<'_>) -> bool {
    let (Some(one), Some(other)) = (record(history, choices, None), record(history, choices, None)) else {
        return false;
    };
    let What::Stored { key: theirs, .. } = what(history, other) else { return false };
    match what_mut(history, one) {
        What::Stored { key, .. } if *key != theirs => *key = theirs,
        _ => return false,
    }
    true
}

fn acked_twice(history: &mut History, choices: &mut Choices<'_>) -> bool {
    let Some(at) = find(history, choices, |what| matches!(what, What::EnqueueAcked { .. })) else {
        return false;
    };
    let What::EnqueueAcked { key, .. } = what(history, at) else { return false };
    let process = history.events[at].process;
    insert(history, at, process, What::EnqueueAcked { key, id: 999_999 });
    true
}

fn never_sent(history: &mut History, choices: &mut Choices<'_>) -> bool {
    let Some(stored) = record(history, choices, None) else { return false };
    let What::Stored { key: wanted, .. } = what(history, stored) else { return false };
    history.events.retain(|r| !matches!(r.event.what, What::EnqueueSent { key } if key == wanted));
    true
}

fn acknowledgement_becomes(
    history: &mut History,
    choices: &mut Choices<'_>,
    new: impl Fn(i64, i64) -> What,
) -> bool {
    let Some(at) = find(history, choices, |what| matches!(what, What::EnqueueAcked { .. })) else {
        return false;
    };
    let What::EnqueueAcked { key, id } = what(history, at) else { return false };
    *what_mut(history, at) = new(key, id);
    true
}

fn enqueue_failed(history: &mut History, choices: &mut Choices<'_>) -> bool {
    acknowledgement_becomes(history, choices, |key, _| What::EnqueueFailed { key })
}

fn rolled_back(history: &mut History, choices: &mut Choices<'_>) -> bool {
    acknowledgement_becomes(history, choices, |key, id| What::RolledBack { key, id })
}

fn a_start(history: &History, choices: &mut Choices<'_>) -> Option<usize> {
    find(history, choices, |what| matches!(what, What::Started { .. }))
}

fn unclaimed_start(history: &mut History, choices: &mut Choices<'_>) -> bool {
    let Some(at) = a_start(history, choices) else { return false };
    let What::Started { seq: wanted, .. } = what(history, at) else { return false };
    history.events.retain(|r| !matches!(r.event.what, What::Claimed { seq, .. } if seq == wanted));
    true
}

fn started_twice(history: &mut History, choices: &mut Choices<'_>) -> bool {
    let Some(at) = a_start(history, choices) else { return false };
    let Recorded { process, event } = history.events[at];
    insert(history, at, process, event.what);
    true
}

fn foreign_args(history: &mut History, choices: &mut Choices<'_>) -> bool {
    let (Some(one), Some(other)) = (a_start(history, choices), a_start(history, choices)) else {
        return false;
    };
    let What::Started { key: theirs, .. } = what(history, other) else { return false };
    match what_mut(history, one) {
        What::Started { key, .. } if *key != theirs => *key = theirs,
        _ => return false,
    }
    true
}

/// Claims that were settled for good, with the times of claim and answer.
fn settled_claims(history: &History) -> HashMap<i64, Outcome> {
    let settled = history.events.iter().filter_map(|r| match r.event.what {
        What::Settled { seq, fate: Fate::Accepted, outcome, .. } => Some((seq, outcome)),
        _ => None,
    });
    settled.collect()
}

/// A worker of another process than `process` that has nothing to do with job `id`.
fn stranger(history: &History, choices: &mut Choices<'_>, process: u32, id: i64) -> Option<(u32, i32)> {
    let holders: HashSet<u32> =
        history.events.iter().filter(|r| r.event.what.job() == Some(id)).map(|r| r.process).collect();
    let all: Vec<(u32, i32)> = history
        .events
        .iter()
        .filter_map(|r| match r.event.what {
            What::Registered { worker, .. } if r.process != process && !holders.contains(&r.process) => {
                Some((r.process, worker))
            }
            _ => None,
        })
        .collect();
    choices.pick(&all)
}

/// Hands job `id` to a stranger right behind event `at`, under the number that the store would give then.
fn claim_behind(history: &mut History, choices: &mut Choices<'_>, at: usize, id: i64, attempt: u16) -> bool {
    let process = history.events[at].process;
    let Some((other, worker)) = stranger(history, choices, process, id) else { return false };
    let before = history.events[..=at].iter().filter_map(|r| match r.event.what {
        What::Claimed { seq, .. } => Some(seq),
        _ => None,
    });
    let new = 1 + before.max().unwrap_or(0);
    for recorded in &mut history.events {
        match &mut recorded.event.what {
            What::Claimed { seq, .. }
            | What::Started { seq, .. }
            | What::Finished { seq, .. }
            | What::Settled { seq, .. }
                if *seq >= new =>
            {
                *seq += 1;
            }
            _ => {}
        }
    }
    let sent = history.events[at].event.at;
    insert(history, at, other, What::Claimed { worker, id, lane: 1, seq: new, attempt, crashes: 0, sent });
    true
}

/// A second claim between the start and the accepted settlement of the first.
fn doubled_claim(history: &mut History, choices: &mut Choices<'_>) -> bool {
    let settled = settled_claims(history);
    let at =
        find(history, choices, |what| matches!(what, What::Started { seq, .. } if settled.contains_key(seq)));
    let Some(at) = at else { return false };
    let What::Started { id, attempt, .. } = what(history, at) else { return false };
    claim_behind(history, choices, at, id, attempt)
}

/// The same where the first never says how it ended, and nothing else could have ended it before.
fn doubled_claim_unsettled(history: &mut History, choices: &mut Choices<'_>) -> bool {
    let (mut ended, mut places) = (HashSet::new(), Vec::new());
    for (at, recorded) in history.events.iter().enumerate() {
        match recorded.event.what {
            What::Fault { fault: Fault::DatabaseCrash, .. } => break,
            What::Rescued { worker, .. } | What::DeregisterSent { worker } => {
                ended.insert(worker);
            }
            What::Started { worker, .. } if !ended.contains(&worker) => places.push(at),
            _ => {}
        }
    }
    let Some(at) = choices.pick(&places) else { return false };
    let What::Started { id, seq: first, attempt, .. } = what(history, at) else { return false };
    if !claim_behind(history, choices, at, id, attempt) {
        return false;
    }
    history.events.retain(
        |r| !matches!(r.event.what, What::Settled { seq, .. } | What::Finished { seq, .. } if seq == first),
    );
    true
}

fn claimed_after_end(history: &mut History, choices: &mut Choices<'_>) -> bool {
    let retried = retried(history);
    let at = find(history, choices, |what| match what {
        What::Settled { id, fate: Fate::Accepted, outcome, .. } => {
            outcome.is_final() && !retried.contains(id)
        }
        _ => false,
    });
    let Some(at) = at else { return false };
    let What::Settled { id, .. } = what(history, at) else { return false };
    claim_behind(history, choices, at, id, 1)
}

fn attempts_jump(history: &mut History, choices: &mut Choices<'_>) -> bool {
    let retried = retried(history);
    let at = find(history, choices, |what| matches!(what, What::Claimed { id, .. } if !retried.contains(id)));
    let Some(at) = at else { return false };
    if let What::Claimed { attempt, .. } = what_mut(history, at) {
        *attempt += 5;
    }
    true
}

fn crashes_forgotten(history: &mut History, choices: &mut Choices<'_>) -> bool {
    let retried = retried(history);
    let before = |at: usize, wanted: i64| {
        history.events[..at].iter().rev().find_map(|r| match r.event.what {
            What::Claimed { id, seq, crashes, .. } if id == wanted => Some((seq, crashes)),
            _ => None,
        })
    };
    let settled = settled_claims(history);
    let fits = |at: &usize| match what(history, *at) {
        // One that was noted late may be older than it looks, with fewer crashes.
        What::Claimed { id, crashes, .. }
            if crashes > 0 && !retried.contains(&id) && !noted_late(&history.events[*at]) =>
        {
            before(*at, id).is_some_and(|(seq, crashes)| crashes > 0 && settled.contains_key(&seq))
        }
        _ => false,
    };
    let all: Vec<usize> = (0..history.events.len()).filter(fits).collect();
    let Some(at) = choices.pick(&all) else { return false };
    if let What::Claimed { crashes, .. } = what_mut(history, at) {
        *crashes = 0;
    }
    true
}

fn noted_late(recorded: &Recorded) -> bool {
    matches!(recorded.event.what, What::Claimed { sent, .. } if recorded.event.at > sent + 1_000_000)
}

/// A refusal after a rescue becomes an acceptance.
fn fenced_write(history: &mut History, choices: &mut Choices<'_>) -> bool {
    let dead: HashMap<i32, u64> = history
        .events
        .iter()
        .filter_map(|r| match r.event.what {
            What::Rescued { worker, .. } => Some((worker, r.event.at)),
            _ => None,
        })
        .collect();
    let at = find(history, choices, |what| match what {
        What::Settled { worker, fate: Fate::Refused, sent, .. } => {
            dead.get(worker).is_some_and(|dead| sent > dead)
        }
        _ => false,
    });
    let Some(at) = at else { return false };
    if let What::Settled { fate, .. } = what_mut(history, at) {
        *fate = Fate::Accepted;
    }
    true
}

fn stray_write(history: &mut History, choices: &mut Choices<'_>) -> bool {
    let Some(at) = a_start(history, choices) else { return false };
    let What::Started { id, seq, .. } = what(history, at) else { return false };
    let Recorded { process, event } = history.events[at];
    let Some((other, worker)) = stranger(history, choices, process, id) else { return false };
    let (fate, outcome) = (Fate::Accepted, Outcome::Complete);
    insert(history, at, other, What::Settled { worker, id, seq, fate, outcome, sent: event.at });
    true
}

/// Every completion of a completed job was refused for certain.
fn refused_and_done(history: &mut History, choices: &mut Choices<'_>) -> bool {
    let unsure: HashSet<i64> = {
        let finished: Vec<(i64, i64)> = history
            .events
            .iter()
            .filter_map(|r| match r.event.what {
                What::Finished { id, seq, outcome: Outcome::Complete, .. } => Some((id, seq)),
                _ => None,
            })
            .collect();
        let answered = ids(history, |what| match *what {
            What::Settled { seq, fate: Fate::Accepted | Fate::Refused, .. } => Some(seq),
            _ => None,
        });
        let unknown = ids(history, |what| match *what {
            What::Settled { seq, fate: Fate::Unknown | Fate::Already, .. } => Some(seq),
            _ => None,
        });
        let certain = |seq: &i64| answered.contains(seq) && !unknown.contains(seq);
        finished.into_iter().filter(|(_, seq)| !certain(seq)).map(|(id, _)| id).collect()
    };
    let completed: Vec<i64> =
        accepted_completions(history).into_iter().filter(|id| !unsure.contains(id)).collect();
    let completed: Vec<i64> = {
        let mut sorted = completed;
        sorted.sort_unstable(); // the order of a set is another in every run
        sorted
    };
    let Some(wanted) = choices.pick(&completed) else { return false };
    for recorded in &mut history.events {
        if let What::Settled { id, fate: fate @ Fate::Accepted, outcome: Outcome::Complete, .. } =
            &mut recorded.event.what
            && *id == wanted
        {
            *fate = Fate::Refused;
        }
    }
    true
}

fn too_many(history: &mut History, choices: &mut Choices<'_>) -> bool {
    let Some(at) = a_start(history, choices) else { return false };
    let process = history.events[at].process;
    for recorded in &mut history.events {
        if let What::Registered { slots, .. } = &mut recorded.event.what
            && recorded.process == process
        {
            *slots = 0;
        }
    }
    true
}

/// Takes away all faults; needs a job that one worker started and another as well, the first being rescued
/// before it ended.
fn unexplained(history: &mut History, _: &mut Choices<'_>) -> bool {
    let report = windlass_chaos::checker::check(history, &Default::default());
    // Without the crashes, leases that were noted late are in another order.
    let late = history.events.iter().any(noted_late);
    if late || report.counts.second_starts == 0 {
        return false;
    }
    history.events.retain(|recorded| !matches!(recorded.event.what, What::Fault { .. }));
    true
}
