//! Keys with limits: how many jobs of one are held at once, and in which order serial ones come.

use super::{ANY, scenario};
use crate::permuter::scenario::{
    Act::*,
    Change, Fate,
    KeyRule::{AtOnce, Free, Serial},
    Scenario,
};

pub(super) fn all() -> Vec<Scenario> {
    let mut all = handing_out();
    all.extend(giving_back());
    all.extend(changing());
    // Between the locks of a claim, and between the look at what was settled and the choice.
    all.push(
        scenario(
            "",
            [ANY, ANY],
            &[LimitKeys(AtOnce(1)), Keyed(&[0, 0, 1])],
            &[&[Claim(0, 2).commit()], &[Claim(1, 2).commit(), CompleteRest(1).commit()]],
        )
        .inside("inside_key_claim_vs_claim"),
    );
    all.push(
        scenario(
            "",
            [ANY, ANY],
            &[LimitKeys(Serial), Keyed(&[0, 0]), Claim(0, 1)],
            &[&[CompleteRest(0).commit()], &[Claim(1, 2).commit(), Claim(1, 2).commit()]],
        )
        .inside("inside_serial_claim_vs_settle"),
    );
    all
}

fn handing_out() -> Vec<Scenario> {
    vec![
        // Not the first claims of the queue: those make its lane, and wait for one another there.
        scenario(
            "key_claim_vs_claim",
            [ANY, ANY],
            &[LimitKeys(AtOnce(1)), Keyed(&[2]), Claim(0, 1), CompleteRest(0), Keyed(&[0, 0, 1])],
            &[
                &[Claim(0, 2).commit(), CompleteRest(0).commit()],
                &[Claim(1, 2).commit(), CompleteRest(1).commit()],
            ],
        ),
        // Where two claims lock no lane in common, the queue's lock alone keeps them apart.
        scenario(
            "key_claim_vs_claim_of_another_priority",
            [ANY, ANY],
            &[
                LimitKeys(AtOnce(1)),
                Keyed(&[2]),
                Claim(0, 1),
                CompleteRest(0),
                Claim(0, 1), // else both take back what was held, and wait for one another there
                Keyed(&[0, 0]),
                Edit(2, Change::Priority(1)),
            ],
            &[
                &[Claim(0, 1).commit(), CompleteRest(0).commit()],
                &[Claim(1, 1).commit(), CompleteRest(1).commit()],
            ],
        ),
        scenario(
            "key_claim_rolled_back",
            [ANY, ANY],
            &[LimitKeys(AtOnce(1)), Keyed(&[0, 0])],
            &[
                &[Claim(0, 2).rollback()],
                &[Claim(1, 2).commit(), CompleteRest(1).commit()],
                &[Keyed(&[0, 1]).commit()],
            ],
        ),
        // What commits late has a lower id than what was there before.
        scenario(
            "serial_claim_vs_late_commit",
            [ANY],
            &[LimitKeys(Serial)],
            &[
                &[Keyed(&[0]).early()],
                &[Keyed(&[0, 1]).commit()],
                &[Claim(0, 2).commit(), CompleteRest(0).commit(), Claim(0, 2).commit()],
            ],
        ),
    ]
}

fn giving_back() -> Vec<Scenario> {
    vec![
        scenario(
            "serial_claim_vs_settle",
            [ANY, ANY, ANY],
            &[LimitKeys(Serial), Keyed(&[0, 0, 0]), Claim(0, 1)],
            &[
                &[CompleteRest(0).commit()],
                &[Claim(1, 2).commit(), CompleteRest(1).commit()],
                &[Keyed(&[0]).commit(), Claim(2, 2).commit()],
            ],
        ),
        scenario(
            "serial_vs_failed_attempt",
            [ANY, ANY],
            &[LimitKeys(Serial), Keyed(&[0, 0]), Claim(0, 1)],
            &[
                &[Except(0, 0, Fate::Retry).commit(), Promote.commit()],
                &[Claim(1, 2).commit()],
                &[Claim(0, 2).commit()],
            ],
        ),
        scenario(
            "serial_vs_rescue",
            [ANY, ANY],
            &[LimitKeys(Serial), Keyed(&[0, 0]), Claim(0, 1), Expire(0)],
            &[&[Rescue(0).commit()], &[Claim(1, 2).commit()], &[CompleteRest(0).commit()]],
        ),
        scenario(
            "key_vs_deregister",
            [ANY, ANY],
            &[LimitKeys(AtOnce(1)), Keyed(&[0, 0, 1]), Claim(0, 2)],
            &[
                &[Complete(0, &[0]).commit(), Deregister(0).commit()],
                &[Claim(1, 2).commit()],
                &[Cancel(1).commit()],
            ],
        ),
        scenario(
            "serial_vs_cancel",
            [ANY, ANY],
            &[LimitKeys(Serial), Keyed(&[0, 0]), Claim(0, 1), Except(0, 0, Fate::Retry)],
            &[
                &[Cancel(0).commit(), Retry(0).commit()],
                &[Promote.commit(), Claim(1, 2).commit()],
                &[Claim(0, 2).commit()],
            ],
        ),
    ]
}

/// Somebody changes the limits beside who claims.
fn changing() -> Vec<Scenario> {
    vec![
        scenario(
            "key_limit_vs_claim",
            [ANY, ANY],
            &[Keyed(&[0, 0, 0])],
            &[
                &[LimitKeys(AtOnce(1)).commit()],
                &[Claim(0, 2).commit()],
                &[Claim(1, 2).commit(), CompleteRest(1).commit()],
            ],
        ),
        scenario(
            "key_limit_lowered_vs_settle",
            [ANY, ANY],
            &[LimitKeys(AtOnce(2)), Keyed(&[0, 0, 0]), Claim(0, 1)],
            &[
                &[LimitKeys(Serial).commit()],
                &[CompleteRest(0).commit()],
                &[Claim(1, 2).commit(), Claim(1, 1).commit()],
            ],
        ),
        scenario(
            "key_limit_taken_away_vs_claim",
            [ANY, ANY],
            &[LimitKeys(Serial), Keyed(&[0, 0, 0]), Claim(0, 1)],
            &[
                &[LimitKeys(Free).commit(), LimitKeys(Serial).commit()],
                &[Claim(1, 2).commit()],
                &[CompleteRest(0).commit()],
            ],
        ),
    ]
}
