//! I8 and I9: limits of keys, and rates.

use super::told::{INJECTOR, ONE, PRODUCER, SECOND, TWO, Told, broken};
use std::time::Duration;
use windlass_chaos::{
    checker::{Invariant, Report, Rules},
    history::{Fate, Fault, Outcome, Phase, What},
};
use windlass_core::RateLimit;

/// Jobs 7, 8, ... each with a claim, an end and a fate, told in the order in which that happens.
fn keyed(steps: &[(i64, &str)]) -> Report {
    let key_rate = Some(RateLimit::new(2, Duration::from_millis(700)));
    keyed_by(&Rules { keys: 4, key_rate, ..Rules::default() }, steps)
}

fn keyed_by(rules: &Rules, steps: &[(i64, &str)]) -> Report {
    let mut told = Told::default()
        .then(ONE, What::Registered { worker: 1, slots: 9, lease_ns: SECOND as i64 * 99 })
        .then(INJECTOR, What::Phase { phase: Phase::Drained });
    for (id, step) in steps {
        let (id, sent) = (*id, told.0.len() as u64 * SECOND / 10);
        let (worker, seq) = (1, id);
        let finished = |outcome| What::Finished { worker, id, seq, outcome };
        let settled = |outcome| What::Settled { worker, id, seq, fate: Fate::Accepted, outcome, sent };
        told = match *step {
            "claim" => told
                .then(ONE, What::Claimed { worker, id, lane: 1, seq, attempt: 1, crashes: 0, sent })
                .then(ONE, What::Started { worker, id, seq, key: id % 4, attempt: 1 }),
            "claim crashed" => told
                .then(ONE, What::Claimed { worker, id, lane: 1, seq, attempt: 1, crashes: 1, sent })
                .then(ONE, What::Started { worker, id, seq, key: id % 4, attempt: 1 }),
            "again" => told.then(
                ONE,
                What::Claimed { worker, id, lane: 1, seq: seq + 100, attempt: 2, crashes: 0, sent },
            ),
            "stored" => told
                .then(PRODUCER, What::EnqueueSent { key: id % 4 })
                .then(PRODUCER, What::EnqueueAcked { key: id % 4, id }),
            "leaves" => told.then(TWO, What::DeregisterSent { worker: 2 }),
            "unheard" => told.then(TWO, What::RescueSent { call: 1 }),
            "retry" => told.then(ONE, What::RetryAsked { id, done: false }),
            "commits" => told.then(ONE, What::EffectSent { worker, id, seq }),
            "crash" => [true, false].into_iter().fold(told, |told, begins| {
                told.then(INJECTOR, What::Fault { fault: Fault::DatabaseCrash, target: None, begins })
            }),
            "rest" => rest(told),
            "paused" => {
                let pause = |begins| What::Fault { fault: Fault::Pause, target: Some(ONE), begins };
                rest(told.then(INJECTOR, pause(true))).then(INJECTOR, pause(false))
            }
            "fails" => told.then(ONE, finished(Outcome::Retry)).then(ONE, settled(Outcome::Retry)),
            _ => told.then(ONE, finished(Outcome::Complete)).then(ONE, settled(Outcome::Complete)),
        };
    }
    told.check_by(rules)
}

/// A second passes.
fn rest(told: Told) -> Told {
    (0..10).fold(told, |told, _| told.then(INJECTOR, What::Phase { phase: Phase::Warm }))
}

/// The invariants that a report names, but for what is not about keys.
fn of_keys(steps: &[(i64, &str)]) -> Vec<Invariant> {
    let mut broken = broken(&keyed(steps));
    broken.retain(|invariant| matches!(invariant, Invariant::I8 | Invariant::I9));
    broken
}

#[test]
fn i8_and_i9_the_limits_of_keys() {
    let two = [(8, "claim"), (12, "claim"), (8, "ends"), (16, "claim"), (12, "ends"), (16, "ends")];
    assert_eq!(of_keys(&two), []);
    let three = [(8, "claim"), (12, "claim"), (16, "claim"), (8, "ends"), (12, "ends"), (16, "ends")];
    assert_eq!(of_keys(&three), [Invariant::I9]);
    assert_eq!(of_keys(&[(7, "claim"), (7, "ends"), (11, "claim"), (11, "ends")]), []);
    assert_eq!(of_keys(&[(7, "claim"), (11, "claim"), (7, "ends"), (11, "ends")]), [Invariant::I8]);
    let in_between = [(7, "claim"), (7, "fails"), (11, "claim"), (11, "ends"), (7, "again")];
    assert_eq!(of_keys(&in_between), [Invariant::I8]);
    assert_eq!(of_keys(&[(7, "claim"), (7, "fails"), (7, "again"), (11, "claim"), (11, "ends")]), []);
    let by_hand = [(7, "claim"), (7, "fails"), (7, "retry"), (11, "claim"), (11, "ends"), (7, "again")];
    assert_eq!(of_keys(&by_hand), [], "nobody knows whether it was over");
    let effect = [(7, "claim"), (7, "commits"), (11, "claim"), (7, "ends"), (11, "ends")];
    assert_eq!(of_keys(&effect), [], "its handler's own transaction may have ended it");
    let forgotten = [(11, "claim"), (0, "crash"), (7, "claim"), (7, "ends"), (11, "again")];
    assert_eq!(of_keys(&forgotten), [], "the claim was lost with the crash");
    let settled = [(11, "claim"), (11, "fails"), (0, "crash"), (7, "claim"), (7, "ends"), (11, "again")];
    assert_eq!(of_keys(&settled), [Invariant::I8], "what was settled is not");
}

#[test]
fn i8_where_every_key_is_serial() {
    let rules = Rules { keys: 4, all_serial: true, ..Rules::default() };
    let two = [(8, "claim"), (12, "claim"), (8, "ends"), (12, "ends")];
    assert!(broken(&keyed_by(&rules, &two)).contains(&Invariant::I8));
    assert_eq!(of_keys(&two), [], "elsewhere two at once are fine for this key");
    let in_turn = [(8, "claim"), (8, "ends"), (12, "claim"), (12, "ends")];
    assert!(!broken(&keyed_by(&rules, &in_turn)).contains(&Invariant::I8));
}

#[test]
fn i8_the_earlier_job_of_a_serial_key_goes_first() {
    let rules = Rules { keys: 4, all_serial: true, ..Rules::default() };
    let out_of_turn = |steps: &[(i64, &str)]| broken(&keyed_by(&rules, steps)).contains(&Invariant::I8);
    let turned = [(8, "stored"), (12, "stored"), (12, "claim"), (12, "ends"), (8, "claim"), (8, "ends")];
    assert!(out_of_turn(&turned));
    let in_turn = [(8, "stored"), (12, "stored"), (8, "claim"), (8, "ends"), (12, "claim"), (12, "ends")];
    assert!(!out_of_turn(&in_turn));
    let late = [(12, "stored"), (12, "claim"), (12, "ends"), (8, "stored"), (8, "claim"), (8, "ends")];
    assert!(!out_of_turn(&late), "it was not there yet");
    let by_hand =
        [(8, "stored"), (8, "retry"), (12, "stored"), (12, "claim"), (12, "ends"), (8, "claim"), (8, "ends")];
    assert!(!out_of_turn(&by_hand), "nobody knows since when it was there again");
    let unnoted =
        [(12, "stored"), (8, "stored"), (12, "claim crashed"), (12, "ends"), (8, "claim"), (8, "ends")];
    assert!(!out_of_turn(&unnoted), "a worker that died had it first: perhaps before the other was there");
    let given_back = [
        (12, "stored"),
        (8, "stored"),
        (0, "leaves"),
        (12, "claim"),
        (12, "ends"),
        (8, "claim"),
        (8, "ends"),
    ];
    assert!(!out_of_turn(&given_back), "so may one that stopped");
    for before_or_after in [0, 5] {
        let mut steps = turned.to_vec();
        steps.insert(before_or_after, (0, "leaves"));
        assert!(out_of_turn(&steps), "not one that left before it was stored, or after it was handed out");
    }
    let beside = [(8, "stored"), (13, "stored"), (13, "claim"), (13, "ends"), (8, "claim"), (8, "ends")];
    assert!(!out_of_turn(&beside), "they have different keys");
}

#[test]
fn i9_the_rates_of_keys() {
    let at_last = [(6, "claim"), (6, "ends"), (10, "claim"), (10, "ends"), (14, "claim"), (14, "ends")];
    assert_eq!(of_keys(&at_last), []);
    let early = [(6, "claim"), (6, "ends"), (10, "claim"), (14, "claim"), (10, "ends"), (14, "ends")];
    assert_eq!(of_keys(&early), [Invariant::I9]);
    let forgotten =
        [(6, "claim"), (10, "claim"), (0, "crash"), (14, "claim"), (6, "ends"), (10, "ends"), (14, "ends")];
    assert_eq!(of_keys(&forgotten), [], "the first two claims were lost with the crash");
}

#[test]
fn i9_the_limit_of_a_queue_after_a_rescue_whose_answer_nobody_heard() {
    let rules = Rules { limit: 1, ..Rules::default() };
    let exceeded = |steps: &[(i64, &str)]| broken(&keyed_by(&rules, steps)).contains(&Invariant::I9);
    let one = [(0, "unheard"), (8, "claim"), (8, "ends"), (9, "claim"), (9, "ends")];
    assert!(!exceeded(&one));
    let two = [(0, "unheard"), (8, "claim"), (9, "claim"), (8, "ends"), (9, "ends")];
    assert!(exceeded(&two), "the store took what it wrote afterwards: it was not dead");
    assert!(
        !exceeded(&[(0, "unheard"), (8, "claim"), (9, "claim")]),
        "it may have been declared dead meanwhile"
    );
}

#[test]
fn i9_what_a_limit_admits_in_the_end() {
    let admits = |got| {
        let told = Told::good().then(INJECTOR, What::Admitted { limit: 5, got });
        !told.check().violated.contains_key(&Invariant::I9)
    };
    assert!(admits(5) && admits(6));
    assert!(!admits(4));
}

#[test]
fn i9_the_rate_of_a_queue() {
    let rate = Some(RateLimit::new(2, Duration::from_millis(1_200)));
    let report = |steps| keyed_by(&Rules { rate, ..Rules::default() }, steps);
    let started = |steps| broken(&report(steps)).contains(&Invariant::I9);
    let slow = [(0, "rest"), (8, "claim"), (8, "ends"), (9, "claim"), (9, "ends"), (10, "claim")];
    assert!(!started(&slow), "the first may have been decided on half a second before");
    assert!(started(&[(0, "rest"), (8, "claim"), (9, "claim"), (10, "claim")]));
    let paused = [(0, "rest"), (0, "paused"), (8, "claim"), (9, "claim"), (10, "claim")];
    assert!(!started(&paused), "the first two were decided on before the pause, perhaps");
}
