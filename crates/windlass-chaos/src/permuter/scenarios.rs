//! The scenarios: pairs and triples of operations that meet at the same jobs.

mod editing;
mod housekeeping;
mod inside;
mod keyed;
mod limited;
mod reporting;
mod ticking;
mod unique;

use super::scenario::{Act, Act::*, Fate, Op, Scenario};

/// A worker that takes any kind.
const ANY: &[&str] = &[];
/// The kind of most jobs.
const A: &str = "a";
/// A kind that not everybody knows.
const B: &str = "b";

fn scenario<const W: usize>(
    name: &'static str,
    workers: [&'static [&'static str]; W],
    setup: &[Act],
    sessions: &[&[Op]],
) -> Scenario {
    Scenario {
        name,
        workers: workers.to_vec(),
        setup: setup.to_vec(),
        sessions: sessions.iter().map(|ops| ops.to_vec()).collect(),
        inside: false,
        patches: Vec::new(),
        may_deadlock: false,
    }
}

/// Every scenario.
pub fn all() -> Vec<Scenario> {
    let mut all = claiming();
    all.extend(settling());
    all.extend(dying());
    all.extend(by_hand());
    all.extend(unique::all());
    all.extend(keyed::all());
    all.extend(limited::all());
    all.extend(ticking::all());
    all.extend(editing::all());
    all.extend(reporting::all());
    all.extend(housekeeping::all());
    all.extend(inside::all());
    all
}

/// The scenario of this name.
pub fn find(name: &str) -> Option<Scenario> {
    all().into_iter().find(|scenario| scenario.name == name)
}

fn claiming() -> Vec<Scenario> {
    let claim_twice: &[Op] = &[Claim(0, 2).commit(), Claim(0, 2).commit()];
    vec![
        scenario(
            "claim_vs_claim",
            [ANY, ANY],
            &[Enqueue(3, A)],
            &[
                &[Claim(0, 2).commit(), CompleteRest(0).commit()],
                &[Claim(1, 2).commit(), CompleteRest(1).commit()],
            ],
        ),
        scenario(
            "claim_vs_late_commit",
            [ANY],
            &[Enqueue(1, A)],
            &[&[Enqueue(2, A).early()], &[Enqueue(1, A).commit()], claim_twice],
        ),
        scenario(
            "claim_vs_rolled_back_enqueue",
            [ANY],
            &[Enqueue(1, A)],
            &[&[Enqueue(2, A).rollback()], &[Enqueue(1, A).early()], claim_twice],
        ),
        scenario(
            "claim_rolled_back",
            [ANY, ANY],
            &[Enqueue(3, A)],
            &[
                &[Claim(0, 2).rollback()],
                &[Claim(1, 2).commit(), CompleteRest(1).commit()],
                &[Cancel(0).commit()],
            ],
        ),
        scenario(
            "park_vs_claim",
            [&[A], &[A, B]],
            &[Enqueue(1, A), Enqueue(1, B), Claim(0, 2)],
            &[
                &[Except(0, 1, Fate::NoHandler).commit()],
                &[Claim(1, 2).commit(), Claim(1, 2).commit()],
                &[Cancel(1).commit()],
            ],
        ),
        scenario(
            "once_vs_once",
            [ANY],
            &[],
            &[
                &[EnqueueOnce(2, A).commit()],
                &[EnqueueOnce(2, A).early()],
                &[Claim(0, 2).commit(), EnqueueOnce(2, A).commit()],
            ],
        ),
        scenario(
            "once_vs_rolled_back_once",
            [ANY],
            &[Enqueue(1, A)],
            &[
                &[EnqueueOnce(2, A).rollback()],
                &[EnqueueOnce(2, A).early()],
                &[EnqueueOnce(2, A).rollback(), Claim(0, 2).commit()],
            ],
        ),
        scenario(
            "promote_vs_promote",
            [ANY, ANY],
            &[
                Enqueue(3, A),
                Claim(0, 3),
                Except(0, 0, Fate::Retry),
                Except(0, 1, Fate::Snooze),
                Except(0, 2, Fate::Retry),
            ],
            &[&[Promote.commit()], &[Promote.commit()], &[Claim(1, 3).commit()]],
        ),
    ]
}

fn settling() -> Vec<Scenario> {
    vec![
        scenario(
            "settle_vs_settle",
            [ANY],
            &[Enqueue(4, A), Claim(0, 4)],
            &[
                &[Complete(0, &[0, 1]).commit()],
                &[Complete(0, &[1, 2]).commit()],
                &[CompleteRest(0).commit()],
            ],
        ),
        scenario(
            "settle_vs_other_fate",
            [ANY, ANY],
            &[Enqueue(3, A), Claim(0, 3)],
            &[
                &[Except(0, 1, Fate::Return).commit(), Except(0, 0, Fate::Discard).commit()],
                &[Complete(0, &[0, 1]).commit()],
                &[CompleteRest(0).commit()],
            ],
        ),
        scenario(
            "settle_vs_deregister",
            [ANY, ANY],
            &[Enqueue(3, A), Claim(0, 3)],
            &[
                &[Complete(0, &[0]).commit(), CompleteRest(0).commit()],
                &[Deregister(0).commit()],
                &[Claim(1, 5).commit()],
            ],
        ),
        // A handler that a timeout or a shutdown ends while it commits: its worker settles the job otherwise.
        scenario(
            "complete_in_vs_result",
            [ANY, ANY],
            &[Enqueue(2, A), Claim(0, 2)],
            &[
                &[CompleteIn(0, 0).commit()],
                &[Except(0, 0, Fate::Result).commit(), Except(0, 1, Fate::Result).commit()],
                &[Claim(1, 2).commit()],
            ],
        ),
        scenario(
            "result_vs_settle_vs_rescue",
            [ANY, ANY],
            &[Enqueue(3, A), Claim(0, 3), Expire(0)],
            &[
                &[Except(0, 0, Fate::Result).commit(), Except(0, 1, Fate::Result).commit()],
                &[Complete(0, &[0]).commit(), CompleteRest(0).commit()],
                &[Rescue(0).commit(), Claim(1, 3).commit()],
            ],
        ),
        scenario(
            "complete_in_vs_return",
            [ANY, ANY],
            &[Enqueue(2, A), Claim(0, 2)],
            &[&[CompleteIn(0, 0).commit()], &[Except(0, 0, Fate::Return).commit()], &[Claim(1, 2).commit()]],
        ),
        scenario(
            "complete_in_vs_retry",
            [ANY, ANY],
            &[Enqueue(2, A), Claim(0, 2)],
            &[
                &[CompleteIn(0, 0).rollback()],
                &[Except(0, 0, Fate::Retry).commit()],
                &[Promote.commit(), Claim(1, 2).commit()],
            ],
        ),
        scenario(
            "complete_in_vs_rescue",
            [ANY, ANY],
            &[Enqueue(2, A), Claim(0, 2), Expire(0)],
            &[&[CompleteIn(0, 0).commit()], &[Rescue(0).commit()], &[Claim(1, 2).commit()]],
        ),
        scenario(
            "complete_in_vs_rest",
            [ANY, ANY],
            &[Enqueue(2, A), Claim(0, 2)],
            &[
                &[CompleteIn(0, 0).commit()],
                &[Complete(0, &[1]).commit()],
                &[Deregister(0).commit(), Claim(1, 2).commit()],
            ],
        ),
    ]
}

fn dying() -> Vec<Scenario> {
    let dead: &[Act] = &[Enqueue(2, A), Claim(0, 2), Expire(0)];
    let claim: &[Op] = &[Claim(1, 2).commit()];
    vec![
        scenario(
            "claim_vs_rescue_vs_settle",
            [ANY, ANY],
            &[Enqueue(3, A), Claim(0, 2), Expire(0)],
            &[
                &[Complete(0, &[0]).commit(), CompleteRest(0).commit()],
                &[Rescue(0).commit()],
                &[Claim(1, 5).commit()],
            ],
        ),
        scenario(
            "claim_by_the_dead",
            [ANY, ANY],
            &[Enqueue(3, A), Claim(0, 1), Expire(0)],
            &[&[Claim(0, 1).commit(), CompleteRest(0).commit()], &[Rescue(0).commit()], claim],
        ),
        scenario(
            "heartbeat_vs_rescue",
            [ANY, ANY],
            dead,
            &[&[Heartbeat(0).commit(), CompleteRest(0).commit()], &[Rescue(0).commit()], claim],
        ),
        scenario(
            "rescue_vs_rescue",
            [ANY, ANY],
            dead,
            &[&[Rescue(0).commit()], &[Rescue(0).commit()], claim],
        ),
        scenario(
            "rescue_vs_deregister",
            [ANY, ANY],
            dead,
            &[&[Rescue(0).commit()], &[Deregister(0).commit()], claim],
        ),
        scenario(
            "suspect_vs_rescue",
            [ANY, ANY],
            dead,
            &[&[Suspect(0, 1).commit()], &[Rescue(0).commit()], claim],
        ),
    ]
}

fn by_hand() -> Vec<Scenario> {
    vec![
        scenario(
            "cancel_vs_claim",
            [ANY],
            &[Enqueue(3, A)],
            &[
                &[Cancel(0).commit()],
                &[Claim(0, 2).commit(), CompleteRest(0).commit()],
                &[Cancel(1).commit()],
            ],
        ),
        scenario(
            "cancel_vs_claim_vs_settle",
            [ANY, ANY],
            &[Enqueue(3, A), Claim(0, 1)],
            &[
                &[Cancel(0).commit(), Cancel(1).commit()],
                &[Claim(1, 2).commit()],
                &[Except(0, 0, Fate::Return).commit()],
            ],
        ),
        scenario(
            "cancel_vs_rescue",
            [ANY, ANY],
            &[Enqueue(2, A), Claim(0, 1), Expire(0)],
            &[&[Cancel(0).commit(), Cancel(1).commit()], &[Rescue(0).commit()], &[Claim(1, 2).commit()]],
        ),
        scenario(
            "cancel_running_vs_settle_vs_heartbeat",
            [ANY, ANY],
            &[Enqueue(3, A), Claim(0, 2)],
            &[
                &[Cancel(0).commit(), Heartbeat(0).commit()],
                &[Except(0, 0, Fate::Retry).commit(), Except(0, 1, Fate::Return).commit()],
                &[Cancel(1).commit(), Claim(1, 3).commit()],
            ],
        ),
        scenario(
            "cancel_running_vs_retry",
            [ANY, ANY],
            &[Enqueue(2, A), Claim(0, 2), Cancel(0)],
            &[
                &[Except(0, 0, Fate::Snooze).commit(), Heartbeat(0).commit()],
                &[Retry(0).commit(), Cancel(1).commit()],
                &[Claim(1, 2).commit(), CompleteRest(0).commit()],
            ],
        ),
        scenario(
            "retry_vs_cancel",
            [ANY, ANY],
            &[Enqueue(3, A), Claim(0, 1), Except(0, 0, Fate::Retry), Cancel(1)],
            &[
                &[Retry(0).commit(), Retry(1).commit()],
                &[Cancel(1).commit(), Cancel(0).commit()],
                &[Claim(1, 5).commit()],
            ],
        ),
        scenario(
            "retry_vs_retry",
            [ANY, ANY],
            &[Enqueue(2, A), Claim(0, 1), Except(0, 0, Fate::Discard), Cancel(1)],
            &[
                &[Retry(0).commit(), Retry(1).commit()],
                &[Retry(1).commit(), Retry(0).commit()],
                &[Claim(1, 5).commit()],
            ],
        ),
        scenario(
            "retry_vs_promote_vs_claim",
            [ANY, ANY],
            &[Enqueue(2, A), Claim(0, 2), Except(0, 0, Fate::Retry), Except(0, 1, Fate::Snooze)],
            &[
                &[Retry(0).commit(), Retry(1).commit()],
                &[Promote.commit()],
                &[Claim(1, 2).commit(), Claim(1, 2).commit()],
            ],
        ),
        scenario(
            "cancel_vs_promote",
            [ANY, ANY],
            &[Enqueue(2, A), Claim(0, 2), Except(0, 0, Fate::Retry), Except(0, 1, Fate::Snooze)],
            &[
                &[Cancel(0).commit(), Cancel(1).commit()],
                &[Promote.commit()],
                &[Claim(1, 2).commit(), Claim(1, 2).commit()],
            ],
        ),
    ]
}
