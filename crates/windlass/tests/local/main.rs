//! What needs no server. One binary for all: each would link everything anew.
#![cfg(feature = "sqlite")]

#[path = "../acting/mod.rs"]
mod acting;
#[cfg(feature = "testing")]
mod acting_fails;
#[cfg(feature = "testing")]
mod bulk;
#[path = "../cancelling/mod.rs"]
mod cancelling;
#[path = "../dying/mod.rs"]
mod dying;
#[cfg(all(feature = "derive", feature = "encryption"))]
mod encryption;
#[cfg(feature = "derive")]
mod handlers;
mod log;
#[cfg(feature = "derive")]
mod logged;
#[cfg(feature = "testing")]
mod part_done;
#[path = "../pausing/mod.rs"]
mod pausing;
#[cfg(feature = "encryption")]
mod schedules;
mod sqlite;
#[cfg(all(feature = "testing", feature = "derive"))]
mod testing;
#[path = "../waiting/mod.rs"]
mod waiting;
#[cfg(feature = "testing")]
mod waits;
