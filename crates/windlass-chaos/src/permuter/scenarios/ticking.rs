//! Several who believe that they lead decide what becomes of one schedule.

use super::{ANY, scenario};
use crate::permuter::scenario::{Act::*, Scenario};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        scenario(
            "fire_vs_fire",
            [ANY],
            &[Declare, Look(0), Look(1)],
            &[
                &[Fire(0).commit(), Claim(0, 2).commit()],
                &[Fire(1).commit()],
                &[Look(2).commit(), Fire(2).commit()],
            ],
        ),
        scenario(
            "fire_vs_rolled_back_fire",
            [ANY],
            &[Declare, Look(0), Look(1)],
            &[&[Fire(0).rollback()], &[Fire(1).commit(), Look(1).commit(), Fire(1).commit()]],
        ),
        scenario(
            "fire_vs_pause",
            [ANY],
            &[Declare, Look(0)],
            &[&[Fire(0).commit()], &[Pause.commit()], &[Look(1).commit(), Fire(1).commit()]],
        ),
        scenario("", [ANY], &[Declare, Look(0), Look(1)], &[&[Fire(0).commit()], &[Fire(1).commit()]])
            .inside("inside_fire_vs_fire"),
    ]
}
