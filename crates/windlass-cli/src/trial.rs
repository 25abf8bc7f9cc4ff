//! What demo and bench share: a place to run, jobs that do nothing of use, and workers whose every job is
//! counted.

mod crew;
mod fill;
mod interrupt;
mod jobs;
mod load;
mod mix;
mod notes;
mod ping;
mod place;
mod squad;
mod sweep;
mod team;
mod timer;

pub(crate) use crew::Crew;
pub(crate) use fill::{Fill, Filled, fill};
pub(crate) use interrupt::{Signals, interrupted, until_interrupted};
pub(crate) use load::{Load, sums};
pub(crate) use mix::{Mix, Mixed, Pace, mix};
pub(crate) use ping::{Arrivals, Ping, ping, ping_on_schedule};
pub(crate) use place::{Place, counts, next_id};
pub(crate) use squad::{Squad, member};
pub(crate) use sweep::sweep;
pub(crate) use team::{Settling, Team};
