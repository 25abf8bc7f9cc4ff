//! The checker on what a consumer of events read: a step that is missing, doubled, too early or never happened is found.

use EventType::{Cancelled, Completed, Enqueued, Failed, Rescued, Retried, Started};
use windlass_chaos::{
    checker::{Invariant, Report, Rules, check},
    history::{Event, Fate, History, Outcome, Phase, ProcessLog, Told, What},
};
use windlass_core::{EventType, JobState};

const ID: i64 = 7;
const SECOND: u64 = 1_000_000_000;

/// What a reader noted: its process, its page, and what of the job.
type Page<'a> = (i64, u64, &'a [EventType]);

/// A job that one worker claimed `claims` times and completed, and what readers noted of it.
fn report(claims: i64, state: JobState, pages: &[Page<'_>]) -> Report {
    let mut all = vec![
        (0, What::Phase { phase: Phase::Warm }),
        (1, What::EnqueueSent { key: 70 }),
        (1, What::EnqueueAcked { key: 70, id: ID }),
        (2, What::Registered { worker: 1, slots: 1, lease_ns: SECOND as i64 }),
    ];
    for seq in 1..=claims {
        let outcome = if seq == claims { Outcome::Complete } else { Outcome::Retry };
        let attempt = u16::try_from(seq).unwrap();
        let claimed = What::Claimed {
            worker: 1,
            id: ID,
            lane: 1,
            seq,
            attempt,
            crashes: 0,
            sent: all.len() as u64 * SECOND,
        };
        all.push((2, claimed));
        all.push((2, What::Started { worker: 1, id: ID, seq, key: 70, attempt }));
        all.push((2, What::Finished { worker: 1, id: ID, seq, outcome }));
        let sent = all.len() as u64 * SECOND;
        all.push((2, What::Settled { worker: 1, id: ID, seq, fate: Fate::Accepted, outcome, sent }));
    }
    for (process, page, events) in pages {
        all.extend(
            events.iter().map(|event| (*process, What::Told { page: *page, id: ID, event: Told(*event) })),
        );
    }
    all.push((0, What::Phase { phase: Phase::Drained }));
    all.push((
        0,
        What::Stored { id: ID, key: 70, state, attempt: u16::try_from(claims).unwrap(), crashes: 0 },
    ));
    all.push((0, What::Phase { phase: Phase::Dumped }));
    let logs = (0..5).map(|number| ProcessLog {
        number,
        name: format!("p{number}"),
        events: (1..)
            .zip(&all)
            .filter(|(_, (by, _))| *by == number)
            .map(|(nth, (_, what))| Event { at: nth * SECOND, what: *what })
            .collect(),
        torn_bytes: 0,
    });
    check(&History::of(logs.collect()), &Rules { listens: true, ..Rules::default() })
}

fn is_caught(report: &Report) -> bool {
    report.violations.iter().any(|violation| violation.invariant == Invariant::I14)
}

const GOOD: [EventType; 5] = [Enqueued, Started, Failed, Started, Completed];

#[test]
fn a_whole_story_is_valid_however_it_was_read() {
    for end in 0..=GOOD.len() {
        let (first, second) = GOOD.split_at(end);
        for pages in [vec![(3, 1, first), (3, 2, second)], vec![(3, 1, first), (4, 2, second)]] {
            let report = report(2, JobState::Completed, &pages);
            assert!(report.violations.is_empty(), "{:?}", report.violations);
        }
        // The reader died before it kept the page: the next one read more.
        let report = report(2, JobState::Completed, &[(3, 1, first), (4, 1, &GOOD)]);
        assert!(report.violations.is_empty(), "{:?}", report.violations);
    }
}

#[test]
fn a_story_that_differs_by_one_step_is_found() {
    for (nth, event) in GOOD.into_iter().enumerate() {
        let mut missing = GOOD.to_vec();
        missing.remove(nth);
        assert!(is_caught(&report(2, JobState::Completed, &[(3, 1, &missing)])), "{missing:?}");
        let mut doubled = GOOD.to_vec();
        doubled.insert(nth, event);
        assert!(is_caught(&report(2, JobState::Completed, &[(3, 1, &doubled)])), "{doubled:?}");
        let mut swapped = GOOD.to_vec();
        swapped.swap(nth, (nth + 1) % GOOD.len());
        assert!(is_caught(&report(2, JobState::Completed, &[(3, 1, &swapped)])), "{swapped:?}");
    }
    for invented in [Rescued, Retried, Cancelled] {
        let mut story = GOOD.to_vec();
        story.push(invented);
        assert!(is_caught(&report(2, JobState::Completed, &[(3, 1, &story)])), "{story:?}");
    }
    // A whole attempt.
    assert!(is_caught(&report(2, JobState::Completed, &[(3, 1, &[Enqueued, Started, Completed])])));
}

#[test]
fn pages_that_were_told_twice_or_not_at_all_are_found() {
    assert!(
        is_caught(&report(2, JobState::Completed, &[(3, 1, &GOOD), (4, 2, &GOOD)])),
        "read from the start again"
    );
    assert!(is_caught(&report(2, JobState::Completed, &[])), "nothing was told");
    assert!(
        is_caught(&report(1, JobState::Cancelled, &[(3, 1, &[Enqueued, Started, Completed])])),
        "another end"
    );
}
