//! The SQLite store on real files: the contract of every store (`conformance`), what only this one has (files,
//! processes, group commit) and a first check of each rule.

mod audit;
mod conformance;
mod control;
mod crashes;
mod fencing;
mod files;
mod fixture;
mod housekeeping;
mod keys;
mod keys_older;
mod lifecycle;
mod limits;
mod no_handler;
mod outcomes;
mod processes;
mod sharing;
mod wakeup;
