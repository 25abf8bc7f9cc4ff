//! What the processes of a run did, as binary events on one clock.
//!
//! Every process appends to a file of its own, one `write` per event or batch of events, so that what it
//! knew survives its SIGKILL. Times are CLOCK_MONOTONIC_RAW: one machine, so one true order.

mod about;
mod clock;
mod event;
mod names;
mod reader;
mod recorder;
mod witness;

pub use clock::now_ns;
pub use event::{Event, RECORD_BYTES, What};
pub use names::{DecodeError, Fate, Fault, Outcome, Phase};
pub use reader::{History, ProcessLog, Recorded};
pub use recorder::{HEADER_BYTES, MAGIC, Recorder};
pub use witness::Witness;
