//! What demo and bench share: a place to run, jobs without work, and a worker whose every job is counted.

mod crew;
mod fill;
mod interrupt;
mod ping;
mod place;
mod timer;

pub(crate) use crew::{Crew, Nap, Noop};
pub(crate) use fill::{Fill, fill};
pub(crate) use interrupt::until_interrupted;
pub(crate) use ping::{Ping, ping};
pub(crate) use place::{Place, counts};
