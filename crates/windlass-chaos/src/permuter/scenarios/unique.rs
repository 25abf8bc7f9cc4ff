//! Unique keys: one job at a time has one, whoever takes it, gives it up or wants it back.

use super::{ANY, scenario};
use crate::permuter::scenario::{
    Act::*,
    Fate, Scenario,
    Way::{Keep, Refuse, Replace, Together, UntilStarted},
};

pub(super) fn all() -> Vec<Scenario> {
    let mut all = taking();
    all.extend(giving_up());
    // Between the look at who has a key and the lock of its row.
    all.push(
        scenario(
            "",
            [ANY, ANY],
            &[Unique(&[0], Keep), Cancel(0)],
            &[&[Unique(&[0], Keep).commit()], &[Unique(&[0], Keep).commit()], &[Claim(1, 2).commit()]],
        )
        .inside("inside_unique_vs_unique"),
    );
    all.push(
        scenario(
            "",
            [ANY, ANY],
            &[Unique(&[0], Keep), Cancel(0)],
            &[&[Unique(&[0], Keep).commit()], &[Retry(0).commit(), Claim(1, 2).commit()]],
        )
        .inside("inside_unique_vs_retry"),
    );
    all.push(
        scenario(
            "",
            [ANY],
            &[Unique(&[0], Keep), Claim(0, 1)],
            &[&[CompleteRest(0).commit()], &[Unique(&[0], Keep).commit(), Unique(&[0], Replace).commit()]],
        )
        .inside("inside_unique_vs_settle"),
    );
    all
}

fn taking() -> Vec<Scenario> {
    vec![
        scenario(
            "unique_vs_unique",
            [ANY],
            &[],
            &[
                &[Unique(&[0], Keep).commit()],
                &[Unique(&[0], Refuse).commit()],
                &[Unique(&[0], Keep).commit(), Claim(0, 2).commit()],
            ],
        ),
        scenario(
            "unique_vs_rolled_back_unique",
            [ANY],
            &[],
            &[
                &[Unique(&[0, 1], Keep).rollback()],
                &[Unique(&[1], Keep).commit()],
                &[Unique(&[0], Keep).commit(), Claim(0, 3).commit()],
            ],
        ),
        // In whatever order a caller names its keys.
        scenario(
            "unique_bulk_vs_bulk",
            [ANY],
            &[],
            &[
                &[Unique(&[0, 1, 2], Keep).commit()],
                &[Unique(&[2, 1, 0], Keep).commit()],
                &[Unique(&[1], Refuse).commit()],
            ],
        ),
        scenario(
            "unique_singles_vs_bulk",
            [ANY],
            &[],
            &[
                &[Unique(&[2, 1, 0], Together).commit()],
                &[Unique(&[0, 1, 2], Keep).commit()],
                &[Unique(&[1], Keep).rollback()],
            ],
        ),
        scenario(
            "unique_singles_take_over",
            [ANY],
            &[Unique(&[1], Keep), Cancel(0)],
            &[
                &[Unique(&[2, 1, 0], Together).commit()],
                &[Unique(&[1, 2], Keep).commit()],
                &[Unique(&[0, 1], Together).rollback()],
            ],
        ),
        scenario(
            "unique_singles_vs_claim",
            [ANY],
            &[Unique(&[0, 1], UntilStarted)],
            &[
                &[Unique(&[1, 0, 2], Together).commit()],
                &[Claim(0, 1).commit(), CompleteRest(0).commit()],
                &[Unique(&[0], UntilStarted).commit()],
            ],
        ),
        scenario(
            "unique_replace_vs_claim",
            [ANY],
            &[Unique(&[0], Keep)],
            &[
                &[Unique(&[0], Replace).commit()],
                &[Claim(0, 2).commit(), CompleteRest(0).commit()],
                &[Unique(&[0], Replace).commit()],
            ],
        ),
        scenario(
            "unique_replace_vs_edit",
            [ANY],
            &[Unique(&[0], UntilStarted)],
            &[
                &[Unique(&[0], Replace).commit()],
                &[Edit(0, crate::permuter::scenario::Change::Args(7)).commit(), Cancel(0).commit()],
                &[Claim(0, 2).commit()],
            ],
        ),
        // The key is as the new job has it.
        scenario(
            "unique_replace_takes_longer",
            [ANY],
            &[Unique(&[0], UntilStarted)],
            &[
                &[Unique(&[0], Replace).commit()],
                &[Claim(0, 2).commit()],
                &[Unique(&[0], Keep).commit(), Unique(&[0], UntilStarted).commit()],
            ],
        ),
        scenario(
            "unique_replace_bulk_vs_delete",
            [ANY],
            &[Unique(&[0, 1], Keep)],
            &[
                &[Unique(&[0, 1], Replace).commit()],
                &[Delete(0).commit(), Unique(&[0], Keep).commit()],
                &[Claim(0, 2).commit()],
            ],
        ),
    ]
}

/// The key is free when its job ends, and taken again when it comes back.
fn giving_up() -> Vec<Scenario> {
    vec![
        scenario(
            "unique_vs_settle",
            [ANY],
            &[Unique(&[0], Keep), Claim(0, 1)],
            &[
                &[CompleteRest(0).commit()],
                &[Unique(&[0], Keep).commit()],
                &[Unique(&[0], Refuse).commit(), Claim(0, 2).commit()],
            ],
        ),
        scenario(
            "unique_vs_failed_attempt",
            [ANY],
            &[Unique(&[0], UntilStarted), Claim(0, 1)],
            &[
                &[Except(0, 0, Fate::Retry).commit(), Promote.commit()],
                &[Unique(&[0], UntilStarted).commit()],
                &[Claim(0, 2).commit()],
            ],
        ),
        scenario(
            "unique_vs_cancel",
            [ANY],
            &[Unique(&[0, 1], Keep)],
            &[
                &[Cancel(0).commit(), Unique(&[0], Keep).commit()],
                &[Unique(&[1, 0], Keep).commit()],
                &[Delete(1).commit()],
            ],
        ),
        scenario(
            "unique_vs_retry",
            [ANY],
            &[Unique(&[0], Keep), Cancel(0)],
            &[
                &[Unique(&[0], Keep).commit()],
                &[Retry(0).commit(), Claim(0, 1).commit()],
                &[Unique(&[0, 1], Keep).commit()],
            ],
        ),
        scenario(
            "unique_vs_rescue",
            [ANY, ANY],
            &[Unique(&[0], Keep), Claim(0, 1), Expire(0)],
            &[
                &[Rescue(0).commit(), Claim(1, 1).commit()],
                &[Unique(&[0], Keep).commit()],
                &[CompleteRest(0).commit(), Unique(&[0], Keep).commit()],
            ],
        ),
        scenario(
            "unique_vs_truncate",
            [ANY],
            &[Unique(&[0, 1], Keep), Cancel(1), Claim(0, 1), Close],
            &[
                &[Maintain.commit(), Maintain.commit(), Maintain.commit(), Maintain.commit()],
                &[Unique(&[1, 0], Keep).commit()],
                &[CompleteRest(0).commit(), Claim(0, 2).commit()],
            ],
        ),
    ]
}
