//! What the processes of a run did, as events on one clock, a line of JSON each.
//!
//! Every process appends to a file of its own, one `write` per event or batch of events, so that what it
//! knew survives its SIGKILL. Times are CLOCK_MONOTONIC_RAW: one machine, so one true order.

mod about;
mod clock;
mod event;
mod names;
mod reader;
mod recorder;
mod tick;
mod told;
mod witness;

pub use clock::now_ns;
pub use event::{Event, What};
pub use names::{Fate, Fault, Outcome, Phase};
pub use reader::{History, ProcessLog, Recorded};
pub use recorder::Recorder;
pub use tick::Tick;
pub use told::Told;
pub use witness::Witness;
