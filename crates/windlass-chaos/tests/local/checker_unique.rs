//! I7: unique keys.

use super::told::{INJECTOR, ONE, PRODUCER, SECOND, TWO, Told, broken};
use windlass_chaos::{
    checker::{Invariant, Verdict},
    history::{Fate, Outcome, Phase, What},
};
use windlass_core::JobState;

const KEY: i64 = 5;

/// Two jobs under one unique key: the one of [`Told::begun`], and another that is asked for at some time.
impl Told {
    fn unique() -> Self {
        Self::begun().then(PRODUCER, What::UniqueSent { key: 70, unique: KEY })
    }

    fn asked_again(self) -> Self {
        self.then(PRODUCER, What::EnqueueSent { key: 80 })
            .then(PRODUCER, What::UniqueSent { key: 80, unique: KEY })
    }

    fn stored_again(self) -> Self {
        self.then(PRODUCER, What::EnqueueAcked { key: 80, id: 8 })
    }

    /// By a call that was sent right before.
    fn kept(self, id: i64) -> Self {
        let sent = self.0.len() as u64 * SECOND / 10;
        self.then(PRODUCER, What::Kept { key: 80, id, sent })
    }

    fn both_completed(self) -> Self {
        self.drained().stored(7, 70, JobState::Completed).stored(8, 80, JobState::Completed)
    }

    fn done_again(self) -> Self {
        let (worker, id, seq) = (2, 8, 2);
        let told =
            self.then(TWO, What::Claimed { worker, id, lane: 1, seq, attempt: 1, crashes: 0, sent: 0 });
        let sent = told.0.len() as u64 * SECOND / 10;
        let (fate, outcome) = (Fate::Accepted, Outcome::Complete);
        told.then(TWO, What::Started { worker, id, seq, key: 80, attempt: 1 })
            .then(TWO, What::Finished { worker, id, seq, outcome })
            .then(TWO, What::Settled { worker, id, seq, fate, outcome, sent })
    }
}

#[test]
fn i7_never_two_jobs_of_one_unique_key() {
    let one_after_the_other =
        Told::unique().claimed(ONE, 1, 1, 1, 0).done(ONE, 1, 1).asked_again().stored_again().done_again();
    let report = one_after_the_other.both_completed().check();
    assert_eq!(report.verdict, Verdict::Valid, "{report:?}");
    // Stored while the first waits to be tried again.
    let failed = Told::unique().claimed(ONE, 1, 1, 1, 0).started(ONE, 1, 1).settled(
        ONE,
        1,
        1,
        Fate::Accepted,
        Outcome::Retry,
    );
    let doubled = failed.asked_again().stored_again().claimed(ONE, 1, 3, 2, 0).done(ONE, 1, 3).done_again();
    let report = doubled.both_completed().check();
    assert_eq!(broken(&report), [Invariant::I7], "{report:?}");
    assert!(report.violations[0].text.contains("had job 7 and job 8"), "{report:?}");
    // The answer to the first one's end is late, or never comes: nobody knows.
    for fate in [Some(Fate::Accepted), Some(Fate::Unknown), None] {
        let told = Told::unique()
            .claimed(ONE, 1, 1, 1, 0)
            .started(ONE, 1, 1)
            .then(ONE, What::Finished { worker: 1, id: 7, seq: 1, outcome: Outcome::Complete });
        let sent = told.0.len() as u64 * SECOND / 10;
        let told = told.asked_again().stored_again();
        let outcome = Outcome::Complete;
        let told = match fate {
            Some(fate) => told.then(ONE, What::Settled { worker: 1, id: 7, seq: 1, fate, outcome, sent }),
            None => told.killed(ONE),
        };
        let report = told.done_again().both_completed().check();
        assert_eq!(report.verdict, Verdict::Valid, "{report:?}");
    }
}

/// Jobs 7, 8, ... of one key that they have for a second; each is stored or kept at that tenth of a second, kept by the job named.
fn windowed(steps: &[(u64, Result<i64, i64>)]) -> Vec<Invariant> {
    let mut told = Told::good();
    let begun = told.now();
    for (tenth, stored) in steps {
        while told.now() < begun + tenth * SECOND / 10 {
            told = told.then(INJECTOR, What::Phase { phase: Phase::Warm });
        }
        let sent = told.now();
        let key = 100 + i64::try_from(told.0.len()).expect("fits");
        told = told
            .then(PRODUCER, What::EnqueueSent { key })
            .then(PRODUCER, What::WindowSent { key, unique: 1, window_ms: 1_000 })
            .then(
                PRODUCER,
                match stored {
                    Ok(id) => What::EnqueueAcked { key, id: *id },
                    Err(holder) => What::Kept { key, id: *holder, sent },
                },
            );
    }
    let mut broken: Vec<_> = told.check().violated.into_keys().collect();
    broken.retain(|invariant| *invariant == Invariant::I7);
    broken
}

#[test]
fn i7_a_key_is_taken_for_its_window_and_no_longer() {
    assert_eq!(windowed(&[(0, Ok(17)), (6, Err(17)), (13, Ok(18))]), []);
    assert_eq!(windowed(&[(0, Ok(17)), (6, Ok(18))]), [Invariant::I7], "the window was not over");
    assert_eq!(windowed(&[(0, Ok(17)), (14, Err(17))]), [Invariant::I7], "it was long over");
    assert_eq!(windowed(&[(0, Ok(17)), (5, Err(7))]), [Invariant::I7], "that one never had the key");
}

#[test]
fn i7_who_finds_a_unique_key_taken_is_told_of_a_job_that_has_it() {
    let done = |told: Told| told.claimed(ONE, 1, 1, 1, 0).done(ONE, 1, 1);
    let end = |told: Told| told.drained().stored(7, 70, JobState::Completed).check();
    let report = end(done(Told::unique().asked_again().kept(7)));
    assert_eq!(report.verdict, Verdict::Valid, "{report:?}");
    for (told, why) in [
        (done(Told::unique()).asked_again().kept(7), "which had ended"),
        (done(Told::unique().asked_again().kept(9)), "which nobody ever saw"),
        (done(Told::unique()).drained().asked_again().kept(7), "it is stuck"),
        (done(Told::begun().asked_again().kept(7)), "which nobody ever saw"),
    ] {
        let report = end(told);
        assert_eq!(broken(&report), [Invariant::I7], "{report:?}");
        assert!(report.violations[0].text.contains(why), "{why}: {report:?}");
    }
    // What was kept is not stored.
    let report = done(Told::unique().asked_again().kept(7)).done_again().both_completed().check();
    assert!(broken(&report).contains(&Invariant::I2), "{report:?}");
}

/// Keys 90, 91, ... under one unique key, each by a call of its own, and what it was told; 90 is stored as job 9.
fn replacing(told: Told, key: i64, answer: impl Fn(u64) -> What) -> Told {
    let told = told
        .then(PRODUCER, What::EnqueueSent { key })
        .then(PRODUCER, What::UniqueSent { key, unique: 1_000 })
        .then(PRODUCER, What::ReplaceSent { key });
    let sent = told.now();
    told.then(PRODUCER, answer(sent))
}

/// A handler gets this key as this job, claimed by a call that is sent now.
fn runs(told: Told, id: i64, seq: i64, key: i64) -> Told {
    let (worker, fate, outcome, sent) = (2, Fate::Accepted, Outcome::Complete, told.now());
    told.then(TWO, What::Claimed { worker, id, lane: 1, seq, attempt: 1, crashes: 0, sent })
        .then(TWO, What::Started { worker, id, seq, key, attempt: 1 })
        .then(TWO, What::Finished { worker, id, seq, outcome })
        .then(TWO, What::Settled { worker, id, seq, fate, outcome, sent: sent + 3 })
}

#[test]
fn i7_the_last_to_take_a_place_runs_and_what_was_replaced_does_not() {
    let begun = || replacing(Told::good(), 90, |_| What::EnqueueAcked { key: 90, id: 9 });
    let taken = |told: Told, key: i64, id: i64| replacing(told, key, |sent| What::Replaced { key, id, sent });
    let completed = |told: Told, id: i64, key: i64| told.stored(id, key, JobState::Completed);
    let check = |told: Told| told.check();

    let under_its_id = runs(taken(taken(begun(), 91, 9), 92, 9), 9, 2, 92);
    let report = check(completed(under_its_id, 9, 92));
    assert_eq!(report.verdict, Verdict::Valid, "{report:?}");
    let in_line = runs(taken(begun(), 91, 10), 10, 2, 91).stored(9, 90, JobState::Cancelled);
    let report = check(completed(in_line, 10, 91));
    assert_eq!(report.verdict, Verdict::Valid, "{report:?}");
    // It ended, and a later one was stored as new.
    let again = replacing(runs(begun(), 9, 2, 90), 91, |_| What::EnqueueAcked { key: 91, id: 10 });
    let again = completed(completed(runs(again, 10, 3, 91), 9, 90), 10, 91);
    let report = check(again);
    assert_eq!(report.verdict, Verdict::Valid, "{report:?}");

    let both = runs(runs(taken(begun(), 91, 10), 9, 2, 90), 10, 3, 91);
    let report = check(completed(completed(both, 9, 90), 10, 91));
    assert_eq!(broken(&report), [Invariant::I7], "{report:?}");
    assert!(report.violations[0].text.contains("handed out though key 91"), "{report:?}");
    let old_args = runs(taken(begun(), 91, 9), 9, 2, 90);
    let report = check(completed(old_args, 9, 90));
    let texts: Vec<&str> = report.violations.iter().map(|violation| &*violation.text).collect();
    assert!(texts.iter().any(|text| text.contains("key 91 was the last to take its place")), "{texts:?}");
    // Nobody knows whether the last of them took the place.
    let unknown = replacing(taken(begun(), 91, 9), 92, |_| What::EnqueueUnknown { key: 92 });
    for key in [91, 92] {
        let report = check(completed(runs(Told(unknown.0.clone()), 9, 2, key), 9, key));
        assert_eq!(report.verdict, Verdict::Valid, "{report:?}");
    }
}

#[test]
fn i7_a_job_is_put_off_no_longer_than_it_may_be() {
    for (after_us, expected) in [(1_000, vec![]), (1_001, vec![Invariant::I7])] {
        let told = Told::good().then(PRODUCER, What::PutOff { id: 7, after_us, most_us: 1_000 });
        assert_eq!(told.check().violated.into_keys().collect::<Vec<_>>(), expected);
    }
}

/// Job 17 has the key, which is extended after 0.6 s; the next job has it later.
#[test]
fn i7_an_extended_window_begins_anew() {
    let story = |next: u64| {
        let mut told = Told::good();
        let begun = told.now();
        for (tenth, extends, id) in [(0, false, 17), (6, true, 17), (next, false, 18)] {
            while told.now() < begun + tenth * SECOND / 10 {
                told = told.then(INJECTOR, What::Phase { phase: Phase::Warm });
            }
            let (sent, key) = (told.now(), 100 + i64::try_from(tenth).expect("fits"));
            let answer = match extends {
                true => What::Extended { key, id, sent },
                false => What::EnqueueAcked { key, id },
            };
            told = told
                .then(PRODUCER, What::EnqueueSent { key })
                .then(PRODUCER, What::WindowSent { key, unique: 1, window_ms: 1_000 })
                .then(PRODUCER, answer);
        }
        told.check().violated.contains_key(&Invariant::I7)
    };
    assert!(!story(20), "the extended window was over");
    assert!(story(13), "the first was over, the extended one was not");
}
