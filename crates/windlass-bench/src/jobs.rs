//! The kinds of jobs that are measured, besides the no-op and the ping.

use serde::{Deserialize, Serialize};
use windlass::Job;

/// A job that waits until it is cancelled.
#[derive(Serialize, Deserialize)]
pub(crate) struct Wait {}

impl Job for Wait {
    const KIND: &'static str = "windlass.wait";
}

/// A job without work that is one of its unique key.
#[derive(Serialize, Deserialize)]
pub(crate) struct Racer {
    pub(crate) key: u64,
}

impl Job for Racer {
    const KIND: &'static str = "windlass.racer";
}

/// A job without work that carries text.
#[derive(Serialize, Deserialize)]
pub(crate) struct Parcel {
    pub(crate) id: u64,
    pub(crate) text: String,
}

impl Job for Parcel {
    const KIND: &'static str = "windlass.parcel";
}

/// A job without work that returns so many characters.
#[derive(Serialize, Deserialize)]
pub(crate) struct Question {
    pub(crate) id: u64,
    pub(crate) bytes: usize,
}

impl Job for Question {
    const KIND: &'static str = "windlass.question";
}

/// A job that waits.
#[derive(Serialize, Deserialize)]
pub(crate) struct Nap {
    pub(crate) id: u64,
    pub(crate) ms: u64,
}

impl Job for Nap {
    const KIND: &'static str = "windlass.nap";
}

/// A job that calculates: so many sines and cosines.
#[derive(Serialize, Deserialize)]
pub(crate) struct Sums {
    pub(crate) id: u64,
    pub(crate) count: u64,
}

impl Job for Sums {
    const KIND: &'static str = "windlass.sums";
}

/// A job that knows when it was to be sent, in microseconds since the workers were started.
#[derive(Serialize, Deserialize)]
pub(crate) struct Stamp {
    pub(crate) id: u64,
    pub(crate) sent_us: u64,
}

impl Job for Stamp {
    const KIND: &'static str = "windlass.stamp";
}

/// A scheduled job that knows when it is due, in microseconds since 1970.
#[derive(Serialize, Deserialize)]
pub(crate) struct Alarm {
    pub(crate) id: u64,
    pub(crate) due_us: i64,
}

impl Job for Alarm {
    const KIND: &'static str = "windlass.alarm";
}
