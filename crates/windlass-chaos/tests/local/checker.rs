//! The checker on histories of a few events: what the random ones of `fuzz/src/queue.rs` do not have, and
//! what a report says. That each broken promise is found anywhere is tried there.

use super::told::{INJECTOR, ONE, PRODUCER, SECOND, TWO, Told, broken};
use windlass_chaos::{
    checker::{Invariant, Rules, Verdict, check, tell},
    history::{Fate, Fault, History, Outcome, Phase, What},
};
use windlass_core::JobState;

#[test]
fn a_job_that_runs_once_and_one_that_is_taken_over_are_fine() {
    let report = Told::good().check();
    assert_eq!((report.verdict, report.counts.second_starts), (Verdict::Valid, 0), "{report:?}");
    let report = Told::taken_over().check();
    assert_eq!((report.verdict, report.counts.second_starts), (Verdict::Valid, 1), "{report:?}");
    assert_eq!(report.counts.explained_by.get(&Fault::Kill), Some(&1));
}

#[test]
fn a_crash_that_forgets_claims_gives_their_numbers_again() {
    let claim = |told: Told| told.claimed(ONE, 1, 2, 1, 0).started(ONE, 1, 2);
    let crashes = |told: Told| told.then(INJECTOR, at(Fault::DatabaseCrash, true));
    // Answered before the fault was noted, or while the server was going down.
    for told in [crashes(claim(Told::begun())), claim(crashes(Told::begun()))] {
        let report = told
            .then(INJECTOR, at(Fault::DatabaseCrash, false))
            .claimed(TWO, 2, 1, 1, 0)
            .done(TWO, 2, 1)
            .settled(ONE, 1, 2, Fate::Refused, Outcome::Complete)
            .drained()
            .stored(7, 70, JobState::Completed)
            .check();
        assert_eq!((report.verdict, report.counts.second_starts), (Verdict::Valid, 1), "{report:?}");
    }
}

/// Its process stood still between the answer and the note of it, while the server crashed and another worker did the job.
#[test]
fn a_claim_that_a_crash_forgot_may_be_noted_after_the_job_was_done() {
    let crashed = || {
        let told = Told::begun().then(INJECTOR, at(Fault::DatabaseCrash, true));
        told.then(INJECTOR, at(Fault::DatabaseCrash, false)).claimed(TWO, 2, 1, 1, 0)
    };
    let before = 3 * SECOND / 10;
    // The same number or a later one, noted before or after the job's end.
    for seq in [1, 2] {
        let after = crashed().done(TWO, 2, 1).claimed_late(ONE, 1, seq, 1, 0, before);
        let amid = crashed().claimed_late(ONE, 1, seq, 1, 0, before).done(TWO, 2, 1);
        for told in [after, amid] {
            let report = told
                .started(ONE, 1, seq)
                .settled(ONE, 1, seq, Fate::Refused, Outcome::Complete)
                .drained()
                .stored(7, 70, JobState::Completed)
                .check();
            assert_eq!((report.verdict, report.counts.second_starts), (Verdict::Valid, 1), "{report:?}");
        }
    }
    // Sent when the job was done already: no crash explains that.
    let doubled = crashed().done(TWO, 2, 1).claimed(ONE, 1, 2, 1, 0);
    assert_eq!(broken(&doubled.drained().stored(7, 70, JobState::Completed).check()), [Invariant::I13]);
    // Accepted: then it was not forgotten.
    let accepted = crashed().done(TWO, 2, 1).claimed_late(ONE, 1, 2, 1, 0, before).done(ONE, 1, 2);
    assert!(broken(&accepted.drained().stored(7, 70, JobState::Completed).check()).contains(&Invariant::I13));
}

#[test]
fn i1_an_acknowledged_job_that_is_nowhere_is_lost() {
    let report = Told::begun().drained().check();
    assert_eq!(broken(&report), [Invariant::I1]);
    let asynchronous = Rules { may_lose_commits: true, ..Rules::default() };
    assert_eq!(
        broken(&Told::begun().drained().check_by(&asynchronous)),
        [Invariant::I1],
        "nothing failed over"
    );
    let failover = What::Fault { fault: Fault::Failover, target: None, begins: true };
    let lost = Told::begun().then(INJECTOR, failover).drained().check_by(&asynchronous);
    assert_eq!(lost.verdict, Verdict::Valid, "as documented: {lost:?}");
}

#[test]
fn i1_a_job_that_completed_without_a_handler_is_lost() {
    let report = Told::begun().drained().stored(7, 70, JobState::Completed).check();
    assert_eq!(broken(&report), [Invariant::I1]);
}

#[test]
fn an_enqueue_that_nobody_knows_of_may_exist_or_not() {
    let unknown = || {
        Told::good()
            .then(PRODUCER, What::EnqueueSent { key: 80 })
            .then(PRODUCER, What::EnqueueUnknown { key: 80 })
    };
    assert_eq!(unknown().check().verdict, Verdict::Valid);
    let ran = unknown().stored(8, 80, JobState::Available);
    assert_eq!(broken(&ran.check()), [Invariant::I1], "it exists, so it must drain as well");
}

#[test]
fn a_job_given_back_by_a_process_that_died_before_the_answer_is_fine() {
    let given_back = |outcome| What::GivenBack { worker: 1, id: 7, seq: 1, outcome };
    let next = |told: Told| {
        told.killed(ONE)
            .claimed(TWO, 2, 2, 1, 0)
            .done(TWO, 2, 2)
            .drained()
            .stored(7, 70, JobState::Completed)
            .check()
    };
    for outcome in [Outcome::NoHandler, Outcome::Return] {
        let report = next(Told::begun().claimed(ONE, 1, 1, 1, 0).then(ONE, given_back(outcome)));
        assert_eq!(report.verdict, Verdict::Valid, "{report:?}");
    }
    let refused = Told::begun().claimed(ONE, 1, 1, 1, 0).then(ONE, given_back(Outcome::NoHandler));
    let refused = refused.settled(ONE, 1, 1, Fate::Refused, Outcome::NoHandler);
    assert_eq!(broken(&next(refused)), [Invariant::I3], "the store said that it did not take it back");
    assert_eq!(broken(&next(Told::begun().claimed(ONE, 1, 1, 1, 0))), [Invariant::I3]);
}

/// An outage during which the first worker is declared dead, though its process lives.
fn outlived() -> Told {
    let outage = |begins| What::Fault { fault: Fault::ConnectionCut, target: None, begins };
    Told::begun()
        .claimed(ONE, 1, 1, 1, 0)
        .started(ONE, 1, 1)
        .then(INJECTOR, outage(true))
        .then(INJECTOR, outage(false))
        .rescued(TWO, 1)
        .claimed(TWO, 2, 2, 1, 1)
        .done(TWO, 2, 2)
        .drained()
        .stored(7, 70, JobState::Completed)
}

#[test]
fn i4_an_outage_explains_no_second_start_of_a_living_workers_job_where_that_is_promised() {
    assert_eq!(outlived().check().verdict, Verdict::Valid);
    let bounded = |most| Rules { most_living_second_starts: Some(most), ..Rules::default() };
    let report = outlived().check_by(&bounded(1));
    assert_eq!(broken(&report), [Invariant::I4]);
    assert_eq!((report.counts.living_second_starts, report.counts.held_through_outages), (1, 1));
    assert_eq!(
        outlived().check_by(&bounded(10_000)).verdict,
        Verdict::Valid,
        "one of one is what was allowed"
    );
    assert_eq!(Told::taken_over().check_by(&bounded(0)).verdict, Verdict::Valid, "its worker was killed");
    for busy in [Fault::Starved, Fault::SlowDisk] {
        let report = outlived().then(INJECTOR, at(busy, true)).then(INJECTOR, at(busy, false));
        let report = report.check_by(&bounded(0));
        assert_eq!(report.verdict, Verdict::Valid, "{busy:?} of the server: {report:?}");
        assert_eq!((report.counts.living_second_starts, report.counts.held_through_outages), (0, 0));
    }
}

/// The heartbeats of a worker that nothing else hit waited for the disk; that is known when it is over.
#[test]
fn a_disk_that_took_long_explains_a_lost_lease() {
    let run = |told: Told| {
        let told = told.rescued(TWO, 1).claimed(TWO, 2, 2, 1, 1).done(TWO, 2, 2);
        told.drained().stored(7, 70, JobState::Completed).check()
    };
    let begun = || Told::begun().claimed(ONE, 1, 1, 1, 0).started(ONE, 1, 1);
    let slow = begun().then(INJECTOR, at(Fault::SlowDisk, true)).then(INJECTOR, at(Fault::SlowDisk, false));
    let report = run(slow);
    assert_eq!(report.counts.explained_by.get(&Fault::SlowDisk), Some(&1), "{report:?}");
    assert_eq!(broken(&run(begun())), [Invariant::I4]);
}

/// On a busy machine it takes seconds until workers have started.
#[test]
fn i12_the_time_before_the_first_completion_is_nothing_to_compare_with() {
    let report = |what: What| {
        let again = |told: Told, count, what: What| (0..count).fold(told, |told, _| told.then(ONE, what));
        let told = Told::begun().then(INJECTOR, What::Phase { phase: Phase::Warm });
        let told = again(again(told, 60, What::Phase { phase: Phase::Faults }), 30, what);
        let told = told.then(INJECTOR, at(Fault::ConnectionCut, true));
        let told = again(told.then(INJECTOR, at(Fault::ConnectionCut, false)), 30, what);
        let rules = Rules { recovers: true, ..Rules::default() };
        told.then(INJECTOR, What::Phase { phase: Phase::Heal }).drained().check_by(&rules)
    };
    let seen = report(What::Finished { worker: 1, id: 7, seq: 1, outcome: Outcome::Complete });
    assert!(!seen.violated.contains_key(&Invariant::I12), "{seen:?}");
    assert_eq!(seen.counts.recoveries, 1, "{seen:?}");
    assert!(
        broken(&report(What::Phase { phase: Phase::Faults })).contains(&Invariant::I12),
        "none completes"
    );
}

/// Its process stood still between the answer and the note of it; it was rescued, and the job was claimed from another lane.
#[test]
fn a_claim_noted_late_may_be_older_than_one_of_another_lane() {
    let told = |lane, sent| {
        let claimed = |worker, lane, seq, crashes, sent| What::Claimed {
            worker,
            id: 7,
            lane,
            seq,
            attempt: 1,
            crashes,
            sent,
        };
        let told = Told::begun()
            .then(INJECTOR, What::Fault { fault: Fault::Pause, target: Some(ONE), begins: true });
        let rescued = told.rescued(TWO, 1);
        let now = rescued.now();
        rescued
            .then(TWO, claimed(2, lane, 2, 1, now))
            .then(INJECTOR, What::Fault { fault: Fault::Pause, target: Some(ONE), begins: false })
            .then(ONE, claimed(1, 1, 3, 0, sent))
            .done(TWO, 2, 2)
            .settled(ONE, 1, 3, Fate::Refused, Outcome::Complete)
            .drained()
            .stored(7, 70, JobState::Completed)
    };
    let before = 3 * SECOND / 10;
    assert_eq!(told(2, before).check().verdict, Verdict::Valid);
    assert!(broken(&told(1, before).check()).contains(&Invariant::I5), "its lane says which was first");
    assert!(broken(&told(2, SECOND).check()).contains(&Invariant::I5), "the other held it when it was sent");
}

#[test]
fn i5_a_write_after_the_rescue_is_refused() {
    let refused = Told::taken_over().settled(ONE, 1, 1, Fate::Refused, Outcome::Complete).check();
    assert_eq!((refused.verdict, refused.counts.refused_writes), (Verdict::Valid, 1));
}

#[test]
fn i6_a_crash_that_is_not_counted_and_an_attempt_that_is() {
    let take_over = |attempt, crashes| {
        Told::begun()
            .claimed(ONE, 1, 1, 1, 0)
            .started(ONE, 1, 1)
            .killed(ONE)
            .rescued(TWO, 1)
            .claimed(TWO, 2, 2, attempt, crashes)
            .done(TWO, 2, 2)
            .drained()
            .stored(7, 70, JobState::Completed)
    };
    assert_eq!(take_over(1, 1).check().verdict, Verdict::Valid);
    assert_eq!(broken(&take_over(1, 0).check()), [Invariant::I6]);
    assert_eq!(broken(&take_over(2, 1).check()), [Invariant::I6]);
}

/// A claim's answer that nobody heard, and its worker's death, are counted. The number of a claim says that there was one between two
/// others of its lane; another lane counts for itself.
#[test]
fn i6_a_crash_may_come_of_a_claim_that_nobody_noted() {
    let lost_between = |lane, seq| {
        let told = Told::begun().claimed(ONE, 1, 5, 1, 0).settled(ONE, 1, 5, Fate::Accepted, Outcome::Return);
        let sent = told.now();
        told.killed(ONE)
            .then(TWO, What::Claimed { worker: 2, id: 7, lane, seq, attempt: 1, crashes: 1, sent })
            .done(TWO, 2, seq)
            .drained()
            .stored(7, 70, JobState::Completed)
    };
    assert_eq!(lost_between(1, 7).check().verdict, Verdict::Valid);
    assert_eq!(broken(&lost_between(1, 6).check()), [Invariant::I6], "no number is missing");
    assert_eq!(lost_between(2, 3).check().verdict, Verdict::Valid);
}

fn at(fault: Fault, begins: bool) -> What {
    What::Fault { fault, target: None, begins }
}

/// A job is enqueued and runs to its end, a dump is taken before or after that, and is restored.
fn restored(dumped_last: bool) -> Told {
    let dump = |told: Told| told.then(INJECTOR, at(Fault::Dump, true)).then(INJECTOR, at(Fault::Dump, false));
    let work = |told: Told| told.claimed(ONE, 1, 1, 1, 0).done(ONE, 1, 1);
    let told = Told::begun();
    let told = if dumped_last { dump(work(told)) } else { work(dump(told)) };
    told.then(INJECTOR, at(Fault::Restore, true)).then(INJECTOR, at(Fault::Restore, false)).registered_anew()
}

#[test]
fn a_restore_takes_back_what_came_after_the_dump_and_nothing_else() {
    let rules = Rules { may_lose_commits: true, ..Rules::default() };
    let again = |told: Told| told.claimed(TWO, 1, 1, 1, 0).done(TWO, 1, 1);
    let stored = |told: Told| told.drained().stored(7, 70, JobState::Completed);
    assert_eq!(stored(again(restored(false))).check_by(&rules).verdict, Verdict::Valid);
    assert_eq!(
        broken(&restored(false).drained().check_by(&rules)),
        [Invariant::I1],
        "it was in the dump, not done"
    );
    assert_eq!(restored(true).drained().check_by(&rules).verdict, Verdict::Valid, "history is dropped");
    assert_eq!(broken(&stored(again(restored(true))).check_by(&rules)), [Invariant::I13], "it was done");
    let late = stored(again(restored(false).settled(ONE, 1, 1, Fate::Accepted, Outcome::Complete)));
    assert!(broken(&late.check_by(&rules)).contains(&Invariant::I5), "a lease of before is void");
}

#[test]
fn an_id_that_is_given_again_after_a_restore_is_another_job() {
    let told = || {
        Told::good()
            .then(INJECTOR, at(Fault::Dump, true))
            .then(INJECTOR, at(Fault::Dump, false))
            .then(PRODUCER, What::EnqueueSent { key: 80 })
            .then(PRODUCER, What::EnqueueAcked { key: 80, id: 8 })
            .then(INJECTOR, at(Fault::Restore, true))
            .then(INJECTOR, at(Fault::Restore, false))
            .then(PRODUCER, What::EnqueueSent { key: 90 })
            .then(PRODUCER, What::EnqueueAcked { key: 90, id: 8 })
    };
    let told = |state| {
        let all = told()
            .registered_anew()
            .then(TWO, What::Claimed { worker: 1, id: 8, lane: 1, seq: 9, attempt: 1, crashes: 0, sent: 0 });
        let all = all.then(TWO, What::Started { worker: 1, id: 8, seq: 9, key: 90, attempt: 1 });
        all.then(TWO, What::Finished { worker: 1, id: 8, seq: 9, outcome: Outcome::Complete })
            .stored(8, 90, state)
    };
    let rules = Rules { may_lose_commits: true, ..Rules::default() };
    assert_eq!(told(JobState::Completed).check_by(&rules).verdict, Verdict::Valid);
    assert_eq!(broken(&told(JobState::Completed).check()), [Invariant::I1], "80 was lost");
    assert_eq!(broken(&told(JobState::Available).check_by(&rules)), [Invariant::I1]);
}

#[test]
fn what_proves_nothing_is_unknown() {
    assert_eq!(check(&History::default(), &Rules::default()).verdict, Verdict::Unknown);
    let few = Rules { planned_faults: 10, ..Rules::default() };
    let report = Told::taken_over().check_by(&few);
    assert_eq!(report.verdict, Verdict::Unknown);
    assert!(report.unknowns[0].contains("only 1 of 10"), "{:?}", report.unknowns);
}

#[test]
fn a_report_tells_the_whole_history_of_a_job() {
    let text = tell(&Told::taken_over().history(), 7);
    for piece in ["EnqueueSent { key: 70 }", "Rescued { call: 1, worker: 1 }", "Kill", "Stored", "process-3"]
    {
        assert!(text.contains(piece), "{piece} is missing in\n{text}");
    }
    assert_eq!(text.lines().count(), 15, "{text}");
}

#[test]
fn i1_and_i13_what_a_handler_returned_is_stored() {
    let returned = || {
        let told = Told::begun().claimed(ONE, 1, 1, 1, 0).started(ONE, 1, 1);
        let told = told.then(ONE, What::Returned { worker: 1, id: 7, seq: 1 });
        let told = told.then(ONE, What::Finished { worker: 1, id: 7, seq: 1, outcome: Outcome::Complete });
        let told = told.settled(ONE, 1, 1, Fate::Accepted, Outcome::Complete).drained();
        told.stored(7, 70, JobState::Completed)
    };
    let result = |key: i64| What::StoredResult { id: 7, key };
    let report = returned().then(INJECTOR, result(70)).check();
    assert_eq!(report.verdict, Verdict::Valid, "{report:?}");
    assert_eq!(broken(&returned().check()), [Invariant::I1]);
    assert_eq!(broken(&returned().then(INJECTOR, result(71)).check()), [Invariant::I13]);
    assert_eq!(broken(&Told::good().then(INJECTOR, result(70)).check()), [Invariant::I13]);
}

#[test]
fn i1_and_i2_the_last_checkpoint_is_what_the_next_run_is_given() {
    let kept = |value| What::CheckpointKept { worker: 1, id: 7, seq: 1, value };
    let resumed = |from| What::Resumed { worker: 1, id: 7, seq: 2, from };
    let told = |sent: u32, is_kept: bool, from: u32| {
        let told = Told::begun().claimed(ONE, 1, 1, 1, 0).started(ONE, 1, 1);
        let told = told.then(ONE, What::CheckpointSent { worker: 1, id: 7, seq: 1, value: sent });
        let told = if is_kept { told.then(ONE, kept(sent)) } else { told };
        let told = told.then(ONE, What::Finished { worker: 1, id: 7, seq: 1, outcome: Outcome::Retry });
        let told = told.settled(ONE, 1, 1, Fate::Accepted, Outcome::Retry);
        let told = told.claimed(ONE, 1, 2, 2, 0).then(ONE, resumed(from));
        told.done(ONE, 1, 2).drained().stored(7, 70, JobState::Completed).check()
    };
    for (sent, is_kept, from) in [(3, true, 3), (3, false, 3), (3, false, 0)] {
        assert_eq!(told(sent, is_kept, from).verdict, Verdict::Valid);
    }
    assert_eq!(broken(&told(3, true, 0)), [Invariant::I1]);
    assert_eq!(broken(&told(3, false, 4)), [Invariant::I2]);
}

#[test]
fn i3_and_i13_what_was_taken_back_does_not_run() {
    let cancelled = |done| What::CancelAsked { id: 7, done };
    let deleted = |done| What::DeleteAsked { id: 7, done };
    let asked = |what: fn(bool) -> What| Told::begun().then(TWO, what(false)).then(TWO, what(true));
    let fine = asked(cancelled).drained().stored(7, 70, JobState::Cancelled).check();
    assert_eq!(fine.verdict, Verdict::Valid, "{fine:?}");
    assert_eq!(asked(deleted).drained().check().verdict, Verdict::Valid);
    let stays = asked(deleted).drained().stored(7, 70, JobState::Cancelled).check();
    assert!(broken(&stays).contains(&Invariant::I13), "{stays:?}");
    for what in [cancelled as fn(bool) -> What, deleted] {
        let runs = asked(what).claimed(ONE, 1, 1, 1, 0).done(ONE, 1, 1).drained();
        let report = runs.stored(7, 70, JobState::Completed).check();
        assert!(broken(&report).contains(&Invariant::I3), "{report:?}");
        assert!(broken(&report).contains(&Invariant::I13), "{report:?}");
    }
    // Somebody who asked and got no answer may have got what they wanted.
    let unknown = Told::begun().then(TWO, deleted(false)).drained().check();
    assert_eq!(unknown.verdict, Verdict::Valid, "{unknown:?}");
}

/// The answer to its own commit was lost, so it settles the job in another way: that it was settled already does not say how.
#[test]
fn i13_who_lost_the_answer_to_its_own_commit_knows_nothing_of_its_end() {
    let told = |commits: bool, fate| {
        let begun = Told::begun().claimed(ONE, 1, 1, 1, 0).started(ONE, 1, 1);
        let begun =
            if commits { begun.then(ONE, What::EffectSent { worker: 1, id: 7, seq: 1 }) } else { begun };
        let ended = begun
            .then(ONE, What::Finished { worker: 1, id: 7, seq: 1, outcome: Outcome::Retry })
            .settled(ONE, 1, 1, fate, Outcome::Cancel)
            .drained()
            .stored(7, 70, JobState::Completed);
        if commits { ended.then(INJECTOR, What::Effect { id: 7 }) } else { ended }.check()
    };
    assert_eq!(told(true, Fate::Already).verdict, Verdict::Valid, "{:?}", told(true, Fate::Already));
    assert_eq!(broken(&told(true, Fate::Accepted)), [Invariant::I13], "one end, and this was it");
    assert!(broken(&told(false, Fate::Already)).contains(&Invariant::I13), "nothing else completed it");
}
