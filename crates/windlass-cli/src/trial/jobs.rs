use serde::{Deserialize, Serialize};
use windlass::Job;

/// A job without work.
#[derive(Serialize, Deserialize)]
pub(super) struct Noop {
    pub(super) id: u64,
}

impl Job for Noop {
    const KIND: &'static str = "windlass.noop";
}

/// A job without work that carries text.
#[derive(Serialize, Deserialize)]
pub(super) struct Parcel {
    pub(super) id: u64,
    pub(super) text: String,
}

impl Job for Parcel {
    const KIND: &'static str = "windlass.parcel";
}

/// A job that waits.
#[derive(Serialize, Deserialize)]
pub(super) struct Nap {
    pub(super) id: u64,
    pub(super) ms: u64,
}

impl Job for Nap {
    const KIND: &'static str = "windlass.nap";
}

/// A job that calculates: so many sines and cosines.
#[derive(Serialize, Deserialize)]
pub(super) struct Sums {
    pub(super) id: u64,
    pub(super) count: u64,
}

impl Job for Sums {
    const KIND: &'static str = "windlass.sums";
}

/// A job that knows when it was to be sent, in microseconds since the start of its crew.
#[derive(Serialize, Deserialize)]
pub(super) struct Stamp {
    pub(super) id: u64,
    pub(super) sent_us: u64,
}

impl Job for Stamp {
    const KIND: &'static str = "windlass.stamp";
}

/// A scheduled job that knows when it is due, in microseconds since 1970.
#[derive(Serialize, Deserialize)]
pub(super) struct Alarm {
    pub(super) id: u64,
    pub(super) due_us: i64,
}

impl Job for Alarm {
    const KIND: &'static str = "windlass.alarm";
}
