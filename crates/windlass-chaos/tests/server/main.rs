//! What needs PostgreSQL: servers of their own that are crashed, and the one of `scripts/with-postgres`. One binary
//! for all: each would link everything anew. `make check` leaves out every test target of this name.

mod fuzz_stores;
mod model_finds_bugs;
mod node;
mod permuter_finds_bugs;
mod permuter_postgres;
mod planted;
mod proxy;
mod proxy_enqueue;
