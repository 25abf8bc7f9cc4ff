//! What needs PostgreSQL. One binary for all: each would link everything anew. `make check` leaves out every test
//! target of this name.
#![cfg(feature = "postgres")]

#[path = "../acting/mod.rs"]
mod acting;
mod adapters;
#[cfg(unix)]
mod async_commit;
#[path = "../cancelling/mod.rs"]
mod cancelling;
#[cfg(feature = "diesel")]
mod diesel;
#[path = "../dying/mod.rs"]
mod dying;
#[cfg(feature = "encryption")]
mod encryption;
#[cfg(unix)]
mod failover;
#[cfg(unix)]
mod faults;
#[path = "../../../windlass-schedule/tests/rules/grammar.rs"]
mod grammar;
#[cfg(unix)]
#[path = "../own_cluster/mod.rs"]
mod own_cluster;
#[path = "../pausing/mod.rs"]
mod pausing;
#[cfg(feature = "sqlite")]
mod postgres;
mod privileges;
#[cfg(unix)]
mod refused_logins;
#[cfg(unix)]
mod replication;
#[cfg(unix)]
mod restore;
mod sql_refusals;
#[cfg(feature = "sqlx")]
mod sqlx;
#[cfg(unix)]
#[path = "../../../windlass-postgres/tests/strand/mod.rs"]
mod strand;
#[cfg(unix)]
mod subscriber;
#[cfg(feature = "testing")]
mod testing;
#[path = "../waiting/mod.rs"]
mod waiting;
