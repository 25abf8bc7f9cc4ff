//! When schedules of Windlass tick, and what is to be done about it. No I/O, no clock.
//!
//! * [`Timing`]: the ticks of a schedule, from its expression and its time zone;
//! * [`Decider`]: what a look at a due schedule leads to.
//!
//! # The rules
//!
//! Cron fields are matched against the clock on the wall of the schedule's zone. Where that clock jumps, it depends on the
//! field of the hours:
//!
//! * **it names hours** (`30 2 * * *`, `0 9-17 * * *`): each time of day ticks once a day. A time that the clock leaves out
//!   ticks at the moment of the jump (several such times: once); one that comes twice ticks the first time.
//! * **it has `*` or a step** (`*/15 * * * *`, `0 */2 * * *`): each matching time ticks as often as the clock shows it. What the
//!   clock leaves out does not tick; what comes twice ticks twice.
//!
//! Intervals (`every 90s`) count seconds and know no zone.

mod cron;
mod cron_fields;
mod decide;
mod interval;
mod jitter;
mod timing;
mod zone;

pub use decide::{Decider, Decision, LastJob};
pub use jitter::jitter;
pub use timing::Timing;

use windlass_core::{Error, ErrorKind};

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidOption, message)
}
