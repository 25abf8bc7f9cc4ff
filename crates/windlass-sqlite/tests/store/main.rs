//! The SQLite store on real files. What every store must do is in `windlass-conformance`; here is what only
//! this one has (files, processes, group commit) and a first check of each rule.

mod control;
mod crashes;
mod fencing;
mod files;
mod fixture;
mod housekeeping;
mod lifecycle;
mod outcomes;
mod parked;
mod processes;
mod sharing;
mod wakeup;
