//! Housekeeping beside everything else: the ring moves on and segments are emptied.

use super::{A, ANY, B, scenario};
use crate::permuter::scenario::{Act::*, Fate, Patch, Scenario};

/// Housekeeping waits for its locks as long as it takes.
const WAITS: Patch =
    Patch { function: "truncate_segment", from: "lock_timeout TO '4ms'", to: "lock_timeout TO '0'" };

/// Each meeting twice: giving up soon, as for users, and waiting for locks as long as it takes.
pub(super) fn all() -> Vec<Scenario> {
    let truncate = |name| {
        scenario(
            name,
            [ANY, ANY],
            &[Enqueue(4, A), Claim(0, 2), Cancel(3), Close],
            &[
                &[Maintain.commit(), Maintain.commit(), Maintain.commit(), Maintain.commit()],
                &[Complete(0, &[0]).commit(), CompleteRest(0).commit()],
                &[Claim(1, 1).commit()],
            ],
        )
    };
    let rotate = |name| {
        scenario(
            name,
            [ANY],
            &[Enqueue(1, A), Claim(0, 1), CompleteRest(0)],
            &[
                &[Maintain.commit(), Maintain.commit(), Maintain.commit()],
                &[Enqueue(1, A).early()],
                &[Claim(0, 2).commit()],
            ],
        )
    };
    let by_hand = |name| {
        scenario(
            name,
            [ANY, ANY],
            &[Enqueue(3, A), Claim(0, 1), Cancel(1), Expire(0), Close],
            &[
                &[Maintain.commit(), Maintain.commit(), Maintain.commit(), Maintain.commit()],
                &[Rescue(0).commit()],
                &[Retry(1).commit(), Cancel(2).commit()],
            ],
        )
    };
    let without_handler = scenario(
        "truncate_vs_no_handler",
        [&[A], &[A, B]],
        &[Enqueue(1, B), Claim(0, 1), Except(0, 0, Fate::NoHandler), Close],
        &[
            &[Maintain.commit(), Maintain.commit(), Maintain.commit()],
            &[Claim(1, 2).commit(), CompleteRest(1).commit()],
            &[Enqueue(1, A).early()],
        ],
    );
    let partly = scenario(
        "truncate_vs_partly_settled",
        [ANY, ANY],
        &[Enqueue(4, A), Claim(0, 3), Complete(0, &[0]), Close],
        &[
            &[Maintain.commit(), Maintain.commit(), Maintain.commit(), Maintain.commit()],
            &[Complete(0, &[1]).commit(), Except(0, 2, Fate::Return).commit()],
            &[Claim(1, 2).commit()],
        ],
    );
    // The transaction that completes has chosen its segment before the claim moves to a newer one.
    let complete_in = scenario(
        "truncate_vs_complete_in",
        [ANY, ANY],
        &[Enqueue(3, A), Claim(0, 2), Complete(0, &[0]), Close],
        &[
            &[CompleteIn(0, 1).commit()],
            &[Maintain.commit(), Maintain.commit(), Maintain.commit(), Maintain.commit(), Maintain.commit()],
            &[Deregister(0).commit()],
        ],
    );
    let results = scenario(
        "truncate_vs_results",
        [ANY, ANY],
        &[Enqueue(3, A), Claim(0, 3), Except(0, 0, Fate::Result), Close],
        &[
            &[Maintain.commit(), Maintain.commit(), Maintain.commit(), Maintain.commit()],
            &[Except(0, 1, Fate::Result).commit(), CompleteRest(0).commit()],
        ],
    );
    // Moved and proved between the statements of others, and the other way round.
    let steps = scenario(
        "",
        [ANY, ANY],
        &[Enqueue(3, A), Claim(0, 1), CompleteRest(0), Close, Maintain],
        &[
            &[Maintain.commit(), Maintain.commit(), Maintain.commit()],
            &[Claim(1, 1).commit(), CompleteRest(1).commit()],
            &[Enqueue(1, A).early()],
        ],
    )
    .inside("truncate_vs_claim_inside");
    let waits = |scenario: Scenario| Scenario { patches: vec![WAITS], ..scenario };
    vec![
        without_handler,
        partly,
        complete_in,
        results,
        steps,
        rotate("rotate_vs_enqueue_vs_claim"),
        waits(rotate("rotate_waits_vs_enqueue_vs_claim")),
        truncate("truncate_vs_settle_vs_claim"),
        waits(truncate("truncate_waits_vs_settle_vs_claim")),
        by_hand("truncate_vs_rescue_vs_retry"),
        waits(by_hand("truncate_waits_vs_rescue_vs_retry")),
    ]
}
