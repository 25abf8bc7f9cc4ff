//! One file per command.

pub(crate) mod audit;
pub(crate) mod demo;
pub(crate) mod enqueue;
mod event_cursor;
pub(crate) mod events;
pub(crate) mod failures;
pub(crate) mod grant;
pub(crate) mod history;
pub(crate) mod jobs;
pub(crate) mod mark;
pub(crate) mod migrate;
pub(crate) mod queues;
pub(crate) mod retention;
pub(crate) mod schedules;
pub(crate) mod serve;
pub(crate) mod settings;
pub(crate) mod status;
pub(crate) mod timings;
pub(crate) mod token;
pub(crate) mod top;
pub(crate) mod work;
pub(crate) mod workers;
