//! Reports of running jobs, while somebody settles them, takes them away or hands them to the next.

use super::{A, ANY, scenario};
use crate::permuter::scenario::{Act::*, Fate, Scenario};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        scenario(
            "report_vs_settle",
            [ANY, ANY],
            &[Enqueue(2, A), Claim(0, 2)],
            &[
                &[Report(0, 0, 1).commit(), Report(0, 1, 1).commit()],
                &[Complete(0, &[1]).commit(), Except(0, 0, Fate::Return).commit()],
                &[Claim(1, 2).commit(), Report(1, 0, 1).commit()],
            ],
        ),
        scenario(
            "report_vs_rescue",
            [ANY, ANY],
            &[Enqueue(1, A), Claim(0, 1), Report(0, 0, 1), Expire(0)],
            &[
                &[Report(0, 0, 2).commit(), Heartbeat(0).commit()],
                &[Rescue(0).commit()],
                &[Claim(1, 1).commit(), Report(1, 0, 1).commit()],
            ],
        ),
        scenario(
            "report_out_of_order",
            [ANY],
            &[Enqueue(1, A), Claim(0, 1)],
            &[
                &[Report(0, 0, 2).commit()],
                &[Report(0, 0, 1).commit(), Report(0, 0, 3).rollback()],
                &[Report(0, 0, 2).commit(), CompleteRest(0).commit()],
            ],
        ),
        scenario(
            "report_vs_delete",
            [ANY, ANY],
            &[Enqueue(1, A), Claim(0, 1), Report(0, 0, 1)],
            &[
                &[Report(0, 0, 2).commit()],
                &[Except(0, 0, Fate::Retry).commit(), Delete(0).commit()],
                &[Deregister(0).commit(), Claim(1, 1).commit()],
            ],
        ),
        scenario(
            "report_vs_complete_in",
            [ANY, ANY],
            &[Enqueue(1, A), Claim(0, 1)],
            &[
                &[CompleteIn(0, 0).commit()],
                &[Report(0, 0, 1).commit()],
                &[Deregister(0).commit(), Claim(1, 1).commit()],
            ],
        ),
        scenario(
            "report_vs_truncate",
            [ANY, ANY],
            &[Enqueue(2, A), Claim(0, 2), Report(0, 0, 1), Complete(0, &[1]), Close],
            &[
                &[Maintain.commit(), Maintain.commit(), Maintain.commit(), Maintain.commit()],
                &[Report(0, 0, 2).commit(), Except(0, 0, Fate::Return).commit()],
                &[Claim(1, 1).commit(), Report(1, 0, 1).commit()],
            ],
        ),
        // Between the lock, the look and the write.
        scenario(
            "",
            [ANY, ANY],
            &[Enqueue(1, A), Claim(0, 1), Report(0, 0, 1)],
            &[
                &[Report(0, 0, 3).commit()],
                &[Except(0, 0, Fate::Return).commit(), Claim(1, 1).commit(), Report(1, 0, 2).commit()],
            ],
        )
        .inside("inside_report_vs_next_holder"),
    ]
}
