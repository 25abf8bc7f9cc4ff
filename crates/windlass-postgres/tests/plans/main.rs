//! What calls cost at size, told by the pages that they touch, not by time.
#[path = "../cluster/mod.rs"]
mod cluster;
#[path = "../pages/mod.rs"]
mod pages;

mod audit;
mod claims;
mod drain;
mod events;
mod inspect;
mod keys;
mod limits;
mod retention;
mod settle;
mod unique;
