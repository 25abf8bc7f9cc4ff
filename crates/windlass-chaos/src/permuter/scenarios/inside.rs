//! The same meetings, with others coming in between the statements of the functions.

use super::{A, ANY, B, scenario};
use crate::permuter::scenario::{Act, Act::*, Fate, Op, Scenario};

pub(super) fn all() -> Vec<Scenario> {
    let two = |name, workers: [&'static [&'static str]; 2], setup: &[Act], one: Op, other: &[Op]| {
        scenario(name, workers, setup, &[&[one], other]).inside(name)
    };
    let retryable: &[Act] = &[Enqueue(2, A), Claim(0, 1), Except(0, 0, Fate::Retry)];
    let dead: &[Act] = &[Enqueue(3, A), Claim(0, 2), Expire(0)];
    let held: &[Act] = &[Enqueue(3, A), Claim(0, 3)];
    vec![
        two(
            "inside_cancel_vs_claim",
            [ANY; 2],
            &[Enqueue(2, A)],
            Cancel(0).commit(),
            &[Claim(0, 2).commit(), CompleteRest(0).commit()],
        ),
        two(
            "inside_cancel_vs_promote",
            [ANY; 2],
            retryable,
            Cancel(0).commit(),
            &[Promote.commit(), Claim(1, 2).commit()],
        ),
        two(
            "inside_cancel_vs_settle",
            [ANY; 2],
            held,
            Cancel(0).commit(),
            &[Except(0, 0, Fate::Retry).commit(), Promote.commit()],
        ),
        two(
            "inside_cancel_vs_retry",
            [ANY; 2],
            retryable,
            Cancel(0).commit(),
            &[Retry(0).commit(), Claim(1, 2).commit()],
        ),
        two(
            "inside_retry_vs_promote",
            [ANY; 2],
            retryable,
            Retry(0).commit(),
            &[Promote.commit(), Claim(1, 2).commit()],
        ),
        two(
            "inside_retry_vs_claim",
            [ANY; 2],
            &[Enqueue(2, A), Cancel(0)],
            Retry(0).commit(),
            &[Claim(1, 2).commit(), Cancel(1).commit()],
        ),
        two(
            "inside_retry_vs_retry",
            [ANY; 2],
            &[Enqueue(2, A), Cancel(0)],
            Retry(0).commit(),
            &[Retry(0).commit(), Cancel(0).commit()],
        ),
        two(
            "inside_retry_vs_settle",
            [ANY; 2],
            held,
            Retry(0).commit(),
            &[Except(0, 0, Fate::Discard).commit(), Claim(1, 2).commit()],
        ),
        two(
            "inside_settle_vs_settle",
            [ANY; 2],
            held,
            Complete(0, &[0, 1]).commit(),
            &[Except(0, 1, Fate::Return).commit(), CompleteRest(0).commit()],
        ),
        two(
            "inside_settle_vs_rescue",
            [ANY; 2],
            dead,
            Complete(0, &[0]).commit(),
            &[Rescue(0).commit(), Claim(1, 2).commit()],
        ),
        two(
            "inside_heartbeat_vs_rescue",
            [ANY; 2],
            dead,
            Rescue(0).commit(),
            &[Heartbeat(0).commit(), CompleteRest(0).commit()],
        ),
        two(
            "inside_claim_vs_late_commit",
            [ANY; 2],
            &[Enqueue(1, A)],
            Enqueue(1, A).early(),
            &[Claim(0, 2).commit(), Claim(0, 2).commit()],
        ),
        two(
            "inside_claim_vs_rescue",
            [ANY; 2],
            dead,
            Rescue(0).commit(),
            &[Claim(0, 1).commit(), CompleteRest(0).commit()],
        ),
        two(
            "inside_no_handler_vs_claim",
            [&[A], &[A, B]],
            &[Enqueue(2, B), Claim(0, 1)],
            Except(0, 0, Fate::NoHandler).commit(),
            &[Claim(1, 2).commit(), CompleteRest(1).commit()],
        ),
    ]
}
