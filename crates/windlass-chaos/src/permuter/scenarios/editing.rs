//! Edits and deletions of jobs that somebody else is about to claim, settle or bring back.

use super::{A, ANY, B, scenario};
use crate::permuter::scenario::{
    Act::*,
    Change::{Args, Now, Priority},
    Fate, Scenario,
};

pub(super) fn all() -> Vec<Scenario> {
    let retryable = &[Enqueue(2, A), Claim(0, 2), Except(0, 0, Fate::Retry), Except(0, 1, Fate::Snooze)];
    let mut all = vec![
        scenario(
            "edit_vs_claim",
            [ANY, ANY],
            &[Enqueue(3, A)],
            &[
                &[Edit(0, Args(1)).commit(), Edit(1, Priority(5)).commit()],
                &[Claim(0, 2).commit(), CompleteRest(0).commit()],
                &[Claim(1, 3).commit()],
            ],
        ),
        scenario(
            "edit_rolled_back",
            [ANY],
            &[Enqueue(2, A)],
            &[
                &[Edit(0, Args(1)).rollback()],
                &[Edit(0, Args(2)).commit(), Delete(1).rollback()],
                &[Claim(0, 2).commit()],
            ],
        ),
        scenario(
            "edit_vs_edit",
            [ANY],
            &[Enqueue(2, A)],
            &[
                &[Edit(0, Args(1)).commit(), Edit(1, Priority(3)).commit()],
                &[Edit(0, Priority(3)).commit(), Edit(1, Args(2)).commit()],
                &[Claim(0, 2).commit()],
            ],
        ),
        scenario(
            "edit_vs_cancel",
            [ANY],
            &[Enqueue(2, A), Cancel(1)],
            &[
                &[Edit(0, Priority(3)).commit(), Edit(1, Args(1)).commit()],
                &[Cancel(0).commit(), Retry(1).commit()],
                &[Claim(0, 2).commit()],
            ],
        ),
        scenario(
            "edit_vs_promote",
            [ANY, ANY],
            retryable,
            &[
                &[Edit(0, Now).commit(), Edit(1, Args(1)).commit()],
                &[Promote.commit()],
                &[Claim(1, 2).commit(), Claim(1, 2).commit()],
            ],
        ),
        scenario(
            "edit_vs_settle",
            [ANY, ANY],
            &[Enqueue(2, A), Claim(0, 2)],
            &[
                &[Edit(0, Args(1)).commit(), Edit(1, Priority(2)).commit()],
                &[Except(0, 0, Fate::Return).commit(), Complete(0, &[1]).commit()],
                &[Claim(1, 2).commit()],
            ],
        ),
        scenario(
            "edit_vs_no_handler",
            [&[A], &[A, B]],
            &[Enqueue(2, B), Claim(0, 2), Except(0, 0, Fate::NoHandler)],
            &[
                &[Edit(0, Priority(1)).commit(), Delete(1).commit()],
                &[Except(0, 1, Fate::NoHandler).commit()],
                &[Claim(1, 2).commit()],
            ],
        ),
        scenario(
            "delete_vs_claim",
            [ANY, ANY],
            &[Enqueue(3, A)],
            &[
                &[Delete(0).commit(), Delete(1).commit()],
                &[Claim(0, 2).commit(), CompleteRest(0).commit()],
                &[Cancel(0).commit()],
            ],
        ),
        scenario(
            "delete_vs_retry",
            [ANY, ANY],
            &[Enqueue(2, A), Claim(0, 1), Except(0, 0, Fate::Discard), Cancel(1)],
            &[
                &[Delete(0).commit(), Delete(1).commit()],
                &[Retry(1).commit(), Retry(0).commit()],
                &[Claim(1, 2).commit()],
            ],
        ),
        scenario(
            "delete_vs_rescue",
            [ANY, ANY],
            &[Enqueue(2, A), Claim(0, 1), Expire(0)],
            &[
                &[Delete(0).commit(), Edit(1, Args(1)).commit()],
                &[Rescue(0).commit()],
                &[Claim(1, 2).commit(), Delete(1).commit()],
            ],
        ),
        scenario(
            "edit_vs_truncate",
            [ANY, ANY],
            &[Enqueue(4, A), Claim(0, 1), Cancel(3), Close],
            &[
                &[Maintain.commit(), Maintain.commit(), Maintain.commit(), Maintain.commit()],
                &[Edit(1, Args(1)).commit(), Delete(2).commit()],
                &[Claim(1, 2).commit()],
            ],
        ),
    ];
    let inside = |name, one: crate::permuter::scenario::Op, other: &[crate::permuter::scenario::Op]| {
        scenario(name, [ANY, ANY], &[Enqueue(2, A)], &[&[one], other]).inside(name)
    };
    all.push(inside("inside_edit_vs_claim", Edit(0, Args(1)).commit(), &[Claim(0, 2).commit()]));
    all.push(inside(
        "inside_edit_vs_edit",
        Edit(0, Args(1)).commit(),
        &[Edit(0, Priority(1)).commit(), Claim(0, 2).commit()],
    ));
    all.push(inside(
        "inside_delete_vs_claim",
        Delete(0).commit(),
        &[Claim(0, 1).commit(), Except(0, 0, Fate::Retry).commit()],
    ));
    all
}
