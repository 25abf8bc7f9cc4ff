//! I7: unique keys.

use super::told::{ONE, PRODUCER, SECOND, TWO, Told, broken};
use windlass_chaos::{
    checker::{Invariant, Verdict},
    history::{Fate, Outcome, What},
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
