//! The API as its callers meet it, on both stores that need no server. Every answer is held against the description.

mod auth_file;
mod bulk;
mod compressed;
mod connections;
mod encrypted;
mod fits;
mod flood;
mod fuzz;
mod hidden;
mod history;
mod jobs;
mod key_limits;
mod live;
mod log;
mod mounted;
mod openapi;
mod refusals;
mod replays;
mod roles;
mod sessions;
mod side_by_side;
mod site;
mod store;
mod timings;
mod work;
