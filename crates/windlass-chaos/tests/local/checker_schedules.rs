//! The checker on schedules: a tick that is missing, doubled, invented, of a pause or too early is found.

use windlass_chaos::{
    checker::{Invariant, Report, Rules, Ticking, check},
    history::{Event, Fate, History, Outcome, Phase, ProcessLog, Tick, What},
};
use windlass_core::JobState;

const MS: u64 = 1_000_000;
/// The first second of the run, by the wall clock.
const NOON: i64 = 1_800_000_000;

/// A run with one schedule of two seconds, whose ticks are those of `fired` (seconds after noon), decided up to ten.
#[derive(Clone)]
struct Told {
    rule: Ticking,
    /// Which ticks fired, when their jobs were claimed and for how many milliseconds they ran.
    fired: Vec<(i64, u64, u64)>,
    made: bool,
    more: Vec<What>,
}

impl Told {
    fn ticks(seconds: &[i64]) -> Self {
        let rule = Ticking {
            schedule: 3,
            every_s: 2,
            fires_all: true,
            overlaps: true,
            queues: false,
            most_missed: 3,
        };
        let fired = seconds.iter().map(|second| (*second, second.unsigned_abs() * 1_000, 10)).collect();
        Self { rule, fired, made: true, more: Vec::new() }
    }

    /// Paused between these milliseconds after noon; each call took a while.
    fn paused(mut self, from: i64, until: i64) -> Self {
        let at = |ms: i64| NOON * 1_000_000 + ms * 1_000;
        for (paused, done, ms) in
            [(true, false, from - 100), (true, true, from), (false, false, until), (false, true, until + 100)]
        {
            self.more.push(What::PauseAsked { schedule: 3, paused, done, wall_us: at(ms) });
        }
        self
    }

    fn with(mut self, what: What) -> Self {
        self.more.push(what);
        self
    }

    fn check(self) -> Report {
        let mut all = vec![(0, 0, What::Phase { phase: Phase::Warm })];
        if self.made {
            all.push((0, 1, What::ScheduleMade { schedule: 3, from_us: NOON * 1_000_000 + 300 }));
        }
        all.push((1, 1, What::EnqueueSent { key: 70 }));
        all.push((1, 2, What::EnqueueAcked { key: 70, id: 70 }));
        all.push((2, 3, What::Registered { worker: 1, slots: 9, lease_ns: 1_000_000_000 }));
        let mut ran = vec![(70, 70, 5, 1)];
        for (nth, (second, claimed, length)) in (1..).zip(&self.fired) {
            let second = if *second < 0 { 0 } else { NOON + second };
            ran.push((nth, Tick { schedule: 3, second }.key(), 1_000 + claimed, *length));
        }
        for (id, key, claimed, length) in &ran {
            let (id, key, claimed) = (*id, *key, *claimed);
            let sent = claimed * MS;
            all.push((
                2,
                claimed,
                What::Claimed { worker: 1, id, lane: 1, seq: id, attempt: 1, crashes: 0, sent },
            ));
            all.push((2, claimed, What::Started { worker: 1, id, seq: id, key, attempt: 1 }));
            let (end, outcome) = (claimed + length, Outcome::Complete);
            all.push((2, end, What::Finished { worker: 1, id, seq: id, outcome }));
            let sent = end * MS;
            all.push((2, end, What::Settled { worker: 1, id, seq: id, fate: Fate::Accepted, outcome, sent }));
        }
        all.extend(self.more.iter().map(|what| (3, 90_000, *what)));
        all.push((0, 90_000, What::Phase { phase: Phase::Drained }));
        for (id, key, ..) in ran {
            let state = JobState::Completed;
            all.push((0, 90_001, What::Stored { id, key, state, attempt: 1, crashes: 0 }));
        }
        all.push((0, 90_002, What::Decided { schedule: 3, until_us: (NOON + 10) * 1_000_000 }));
        all.push((0, 90_003, What::Phase { phase: Phase::Dumped }));
        let log = |number: i64| ProcessLog {
            number,
            name: format!("p{number}"),
            events: all
                .iter()
                .filter(|(by, ..)| *by == number)
                .map(|(_, at, what)| Event { at: (at + 1) * MS, what: *what })
                .collect(),
            torn_bytes: 0,
        };
        let rules = Rules { schedules: vec![self.rule], ..Rules::default() };
        check(&History::of((0..4).map(log).collect()), &rules)
    }
}

fn says(report: &Report) -> Vec<&str> {
    assert!(
        report.violations.iter().all(|found| found.invariant == Invariant::I10),
        "{:?}",
        report.violations
    );
    report.violations.iter().map(|found| &*found.text).collect()
}

const ALL: [i64; 5] = [2, 4, 6, 8, 10];
/// A run by hand.
const BY_HAND: i64 = -1;

#[test]
fn every_tick_once_is_valid() {
    let report = Told::ticks(&ALL).check();
    assert!(report.violations.is_empty() && report.unknowns.is_empty(), "{report:?}");
    assert_eq!(report.counts.ticks, 5);
    // In whatever order they ran.
    assert!(says(&Told::ticks(&[10, 2, 8, 4, 6]).check()).is_empty());
}

#[test]
fn a_tick_that_is_missing_doubled_or_invented_is_found() {
    for second in ALL {
        let without: Vec<i64> = ALL.into_iter().filter(|other| *other != second).collect();
        let report = Told::ticks(&without).check();
        assert_eq!(says(&report).len(), 1, "{report:?}");
        assert!(says(&report)[0].ends_with("was decided and never fired"), "{report:?}");
        let mut doubled = ALL.to_vec();
        doubled.push(second);
        let report = Told::ticks(&doubled).check();
        assert!(says(&report)[0].contains("fired twice") && says(&report).len() == 1, "{report:?}");
    }
    let report = Told::ticks(&[2, 4, 5, 6, 8, 10]).check();
    assert!(says(&report)[0].ends_with("is none"), "{report:?}");
    let report = Told::ticks(&[2, 4, 6, 8, 10, 12]).check();
    assert!(says(&report)[0].contains("not decided by its record"), "{report:?}");
    let mut unknown = Told::ticks(&ALL);
    unknown.rule.schedule = 4;
    assert!(says(&unknown.check())[0].contains("nobody declared it"));
    // Nobody knows when it was made: it counts from its first tick on.
    let late = |seconds: &[i64]| Told { made: false, ..Told::ticks(seconds) };
    assert!(says(&late(&[4, 6, 8, 10]).check()).is_empty());
    assert_eq!(says(&late(&[4, 8, 10]).check()).len(), 1);
}

#[test]
fn only_those_that_fire_all_miss_none() {
    let mut passes = Told::ticks(&[2, 10]);
    passes.rule.fires_all = false;
    assert!(says(&passes.check()).is_empty());
}

#[test]
fn a_pause_explains_its_own_ticks() {
    assert!(says(&Told::ticks(&[2, 8, 10]).paused(2_500, 6_500).check()).is_empty());
    // The tick before the pause was not decided when it began.
    assert!(says(&Told::ticks(&[8, 10]).paused(2_500, 6_500).check()).is_empty());
    // Those behind it were not of it.
    assert_eq!(says(&Told::ticks(&[2, 10]).paused(2_500, 6_500).check()).len(), 1);
    // A later one had fired before the pause.
    assert_eq!(says(&Told::ticks(&[4, 8, 10]).paused(4_500, 6_500).check()).len(), 1);
    let report = Told::ticks(&ALL).paused(2_500, 6_500).check();
    assert_eq!(says(&report).len(), 2, "{report:?}");
    assert!(says(&report)[0].contains("was paused"), "{report:?}");
}

#[test]
fn what_must_not_overlap_does_not() {
    let told = |claimed: u64| {
        let mut told = Told::ticks(&ALL);
        told.rule.overlaps = false;
        // The job of the first tick ran for a second.
        told.fired[0].2 = 1_000;
        told.fired[1].1 = claimed;
        told
    };
    assert!(says(&told(3_001).check()).is_empty());
    let report = told(2_500).check();
    assert!(says(&report)[0].contains("for 500 ms more"), "{report:?}");
    let mut may = told(2_500);
    may.rule.overlaps = true;
    assert!(says(&may.check()).is_empty());
}

/// A schedule that passes ticks over while the job before runs, or has one of them wait; the wall was looked at.
fn passes(seconds: &[i64], queues: bool) -> Told {
    let mut told = Told::ticks(seconds);
    told.rule = Ticking { fires_all: false, overlaps: false, queues, ..told.rule };
    told.with(What::Looked { wall_us: NOON * 1_000_000 + 89_000_000 })
}

#[test]
fn a_tick_is_passed_over_for_a_reason() {
    assert!(says(&passes(&ALL, false).check()).is_empty());
    let report = passes(&[2, 6, 8, 10], false).check();
    assert!(
        says(&report).len() == 1 && says(&report)[0].contains("nothing kept it from firing"),
        "{report:?}"
    );
    let mut ran = passes(&[2, 6, 8, 10], false);
    ran.fired[0].2 = 2_500;
    assert!(says(&ran.check()).is_empty(), "the job before had not ended");
    assert!(says(&passes(&[2, 6, 8, 10], false).paused(2_500, 5_000).check()).is_empty());
    // Nobody decided until the tenth second: three fire of more that are due, and then the first of them is not over for the others.
    let mut late = passes(&[2, 6], false);
    late.fired[1] = (6, 10_100, 10);
    assert!(says(&late.clone().check()).is_empty(), "{:?}", late.check());
    // The last ones, behind which none fired.
    assert_eq!(says(&passes(&[2, 4], false).check()).len(), 3);
}

#[test]
fn a_tick_waits_for_the_job_before() {
    let running = |claimed| {
        let mut told = passes(&[2, 6, 8, 10], true);
        told.fired[0] = (2, claimed, 2_500);
        told.fired[1].1 = claimed + 2_600;
        told
    };
    assert_eq!(says(&running(2_000).check()).len(), 1, "it should have waited and fired then");
    assert!(says(&running(4_500).check()).is_empty(), "the one before waited itself");
}

#[test]
fn the_last_tick_that_was_decided_fires() {
    let seen = |decided: i64, last: i64| {
        let at = |second: i64| (NOON + second) * 1_000_000;
        What::Ticked { schedule: 3, decided_us: at(decided), last_us: at(last) }
    };
    let mut last = Told::ticks(&[2, 6, 10]);
    last.rule.fires_all = false;
    let check = |what| Told { more: vec![what], ..last.clone() }.check();
    assert!(says(&check(seen(6, 6))).is_empty());
    assert!(says(&check(seen(5, 2))).is_empty(), "where a pause ended");
    assert!(says(&check(seen(8, 6)))[0].contains("was the last one decided, and did not fire"));
    assert!(says(&check(seen(8, 8)))[0].contains("has no job"));
}

#[test]
fn runs_by_hand_are_beside_the_ticks() {
    let told = || Told::ticks(&[2, 4, 6, 8, 10, BY_HAND]);
    let asked = What::RunAsked { schedule: 3 };
    assert!(says(&told().with(asked).with(What::Ran { schedule: 3, id: 6 }).check()).is_empty());
    assert!(says(&told().with(asked).check()).is_empty(), "its answer was lost");
    assert!(says(&told().check())[0].contains("ran 1 times by hand, asked were 0"));
    let report = told().with(asked).with(What::Ran { schedule: 3, id: 5 }).check();
    assert!(says(&report)[0].contains("none of its"), "{report:?}");
}
