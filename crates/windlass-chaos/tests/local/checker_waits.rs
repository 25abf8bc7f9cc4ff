//! The checker on jobs that expire, and on what those are told who wait for a job's end.

use super::told::{INJECTOR, ONE, PRODUCER, TWO, Told, broken};
use windlass_chaos::{
    checker::{Invariant, Rules, Verdict},
    history::{Fate, Outcome, What},
};
use windlass_core::JobState;

/// A job that may start within so many milliseconds; it is there after three tenths of a second.
fn hurried(after_ms: u64) -> Told {
    Told::default()
        .then(ONE, What::Registered { worker: 1, slots: 1, lease_ns: 99_000_000_000 })
        .then(PRODUCER, What::EnqueueSent { key: 70 })
        .then(PRODUCER, What::Expires { key: 70, after_ms })
        .then(PRODUCER, What::EnqueueAcked { key: 70, id: 7 })
}

/// So many tenths of a second pass.
fn rest(told: Told, tenths: usize) -> Told {
    let warm = || What::Phase { phase: windlass_chaos::history::Phase::Warm };
    (0..tenths).fold(told, |told, _| told.then(INJECTOR, warm()))
}

#[test]
fn i2_nothing_starts_that_has_expired() {
    let ran = |tenths| {
        let told = rest(hurried(500), tenths).claimed(ONE, 1, 1, 1, 0).done(ONE, 1, 1);
        told.drained().stored(7, 70, JobState::Completed).check()
    };
    assert_eq!(ran(3).verdict, Verdict::Valid, "{:?}", ran(3));
    assert_eq!(
        ran(8).verdict,
        Verdict::Valid,
        "it may have been decided on half a second before it was noted"
    );
    assert_eq!(broken(&ran(11)), [Invariant::I2]);
}

#[test]
fn i13_a_job_is_cancelled_as_expired_when_it_has() {
    let cancelled = |after_ms, expired| {
        let told = rest(hurried(after_ms), 6).claimed(ONE, 1, 1, 1, 0);
        let told = told.settled(ONE, 1, 1, Fate::Accepted, Outcome::Cancel).drained();
        let told = told.stored(7, 70, JobState::Cancelled);
        (if expired { told.then(INJECTOR, What::Expired { id: 7 }) } else { told }).check()
    };
    assert_eq!(cancelled(500, true).verdict, Verdict::Valid, "{:?}", cancelled(500, true));
    assert_eq!(broken(&cancelled(500, false)), [Invariant::I1], "nobody asked for it");
    assert_eq!(broken(&cancelled(5_000, true)), [Invariant::I13], "it had time");
    let never = Told::begun().claimed(ONE, 1, 1, 1, 0).settled(ONE, 1, 1, Fate::Accepted, Outcome::Cancel);
    let never = never.drained().stored(7, 70, JobState::Cancelled).then(INJECTOR, What::Expired { id: 7 });
    assert_eq!(broken(&never.check()), [Invariant::I13], "it never expires");
}

#[test]
fn i13_who_waits_is_told_the_truth() {
    let told = |state| {
        let told = Told::good().then(PRODUCER, What::Waited { id: 7, state });
        told.check()
    };
    assert_eq!(told(Some(JobState::Completed)).verdict, Verdict::Valid);
    assert_eq!(broken(&told(Some(JobState::Discarded))), [Invariant::I13]);
    assert_eq!(told(None).verdict, Verdict::Valid, "it gave up when the job had only just ended");
    let late = rest(Told::good(), 110).then(PRODUCER, What::Waited { id: 7, state: None }).check();
    assert_eq!(broken(&late), [Invariant::I13]);
    let early = Told::begun()
        .claimed(ONE, 1, 1, 1, 0)
        .then(TWO, What::Waited { id: 7, state: Some(JobState::Completed) });
    let early = early.done(ONE, 1, 1).drained().stored(7, 70, JobState::Completed);
    assert_eq!(broken(&early.check()), [Invariant::I13], "its handler had not finished");
}

#[test]
fn a_run_in_which_nothing_expired_and_nobody_waited_proves_nothing_about_it() {
    for rules in [Rules { expires: true, ..Rules::default() }, Rules { waits: true, ..Rules::default() }] {
        assert_eq!(Told::good().check_by(&rules).verdict, Verdict::Unknown);
    }
}
