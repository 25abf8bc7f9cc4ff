//! One file per command.

pub(crate) mod demo;
pub(crate) mod enqueue;
pub(crate) mod grant;
pub(crate) mod jobs;
pub(crate) mod migrate;
pub(crate) mod queues;
pub(crate) mod schedules;
pub(crate) mod settings;
pub(crate) mod status;
pub(crate) mod work;
