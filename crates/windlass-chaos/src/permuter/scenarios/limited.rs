//! Queues that limit how many of their jobs run at once: who has which slots, while limits change and workers end.

use super::{A, ANY, scenario};
use crate::permuter::scenario::{Act::*, Scenario};

pub(super) fn all() -> Vec<Scenario> {
    let share_twice = |name| {
        scenario(
            name,
            [ANY, ANY],
            &[LimitQueue(Some(3)), Enqueue(3, A)],
            &[
                &[Share(0, 0, 3).commit(), Claim(0, 2).commit()],
                &[Share(1, 0, 2).commit(), Claim(1, 2).commit()],
            ],
        )
    };
    vec![
        share_twice("share_vs_share"),
        share_twice("").inside("inside_share_vs_share"),
        scenario(
            "share_rolled_back",
            [ANY, ANY],
            &[LimitQueue(Some(2)), Enqueue(2, A)],
            &[
                &[Share(0, 0, 2).rollback()],
                &[Share(1, 0, 2).commit(), Claim(1, 2).commit()],
                &[Claim(0, 1).commit()],
            ],
        ),
        scenario(
            "limit_vs_claim",
            [ANY, ANY],
            &[Enqueue(3, A)],
            &[
                &[LimitQueue(Some(1)).commit()],
                &[Claim(0, 1).commit(), Claim(0, 1).commit()],
                &[Share(1, 0, 1).commit(), Claim(1, 1).commit()],
            ],
        ),
        scenario(
            "limit_lowered_vs_share",
            [ANY, ANY],
            &[LimitQueue(Some(3)), Enqueue(2, A), Share(0, 0, 2), Claim(0, 2)],
            &[
                &[LimitQueue(Some(1)).commit()],
                &[Share(0, 2, 3).commit(), Share(0, 1, 1).commit()],
                &[Share(1, 0, 2).commit()],
            ],
        ),
        scenario(
            "limit_taken_away_vs_share",
            [ANY, ANY],
            &[LimitQueue(Some(2)), Enqueue(3, A), Share(0, 0, 2)],
            &[
                &[LimitQueue(None).commit(), LimitQueue(Some(1)).commit()],
                &[Share(1, 0, 2).commit(), Claim(1, 1).commit()],
                &[Claim(0, 1).commit(), Share(0, 1, 1).commit()],
            ],
        ),
        scenario(
            "share_vs_rescue",
            [ANY, ANY],
            &[LimitQueue(Some(2)), Enqueue(2, A), Share(0, 0, 2), Claim(0, 2), Expire(0)],
            &[
                &[Rescue(0).commit()],
                &[Share(1, 0, 2).commit(), Claim(1, 2).commit()],
                &[Share(0, 1, 2).commit(), Complete(0, &[0]).commit()],
            ],
        ),
        scenario(
            "share_vs_deregister",
            [ANY, ANY],
            &[LimitQueue(Some(2)), Enqueue(2, A), Share(0, 0, 2), Claim(0, 1)],
            &[
                &[CompleteRest(0).commit(), Deregister(0).commit()],
                &[Share(1, 0, 2).commit(), Claim(1, 2).commit()],
                &[Share(0, 1, 1).commit()],
            ],
        ),
    ]
}
