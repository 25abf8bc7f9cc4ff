//! A busy queue beside a burden: what the case `size` is made of.
//!
//! The burden is made in a process of its own, so that neither its memory nor its processor time count as those of the
//! worker of the busy queue. It is in one of two stores that are alike otherwise ([`Places`]).

mod bars;
mod burden;
mod busy;
mod carried;
pub(crate) mod carrier;
mod footprint;
mod housekeeping;
mod place;
mod rounds;
mod task;
mod timed_store;
mod timings;
mod unload;

pub(crate) use bars::{Sizes, bars, percent_of_alone};
pub(crate) use burden::Burden;
pub(crate) use busy::Busy;
pub(crate) use carried::Carried;
pub(crate) use footprint::footprint;
pub(crate) use housekeeping::keep_house;
pub(crate) use place::Places;
pub(crate) use rounds::Rounds;
pub(crate) use task::Task;
pub(crate) use unload::unload;
