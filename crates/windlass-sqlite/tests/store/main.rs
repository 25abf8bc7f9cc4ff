//! The SQLite store on real files: the contract of every store (`conformance`), what only this one has (files,
//! processes, group commit) and a first check of each rule.

mod audit;
mod conformance;
mod control;
mod crashes;
mod durable;
mod events_older;
mod fencing;
mod files;
mod find;
mod fixture;
mod housekeeping;
mod idle_lanes;
mod idle_lanes_older;
mod keys;
mod keys_older;
mod keys_rate;
mod large;
mod lifecycle;
mod limits;
mod many_queues;
mod no_handler;
mod older_schema;
mod outcomes;
mod processes;
mod put_back;
mod results;
mod sharing;
mod starving;
mod timings;
mod unique;
mod wakeup;
