//! What calls cost at size, told by the pages that they touch, not by time.
#[path = "../cluster/mod.rs"]
mod cluster;
#[path = "../session/mod.rs"]
mod session;

mod audit;
mod claims;
mod depth;
mod drain;
mod events;
mod inspect;
mod keyed_jobs;
mod keys;
mod limits;
mod listing;
mod no_handler;
mod one_job;
mod retention;
mod settle;
mod statistics;
mod unique;
