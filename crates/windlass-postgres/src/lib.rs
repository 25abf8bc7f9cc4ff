//! The PostgreSQL store of Windlass: an append-only job log.
//!
//! Jobs are appended once, claimed by advancing a snapshot cursor, settled by appending one row per
//! batch, and removed by truncating whole segments. Only the exceptional job (delayed, retried, without a handler)
//! pays for a row of its own. The SQL lives in `sql/`; this crate carries parameters and rows.
//!
//! Works with PostgreSQL 13 and later, without extensions or superuser rights, and, with
//! `?pooler=transaction` in the URL, behind a transaction-mode pooler (polling instead of LISTEN).
//!
//! ```no_run
//! use windlass_core::{Args, JobStore, NewJob};
//! use windlass_postgres::{PostgresOptions, PostgresStore};
//! # async fn example() -> windlass_core::Result<()> {
//! let store = PostgresStore::connect("postgres://me@localhost/app", PostgresOptions::default()).await?;
//! store.migrate().await?;
//! store.enqueue(&[NewJob::new("mail.send", Args::parse(r#"{"user": 7}"#)?)]).await?;
//! # Ok(()) }
//! ```

mod access;
mod append;
mod audit;
mod batch;
mod borrowed;
mod caches;
#[doc(hidden)]
pub mod calls;
mod claim;
mod completions;
mod connection;
mod control;
mod copy;
mod database;
mod deadline;
mod due;
mod edit;
mod ends;
mod enqueue;
mod error;
mod events;
mod grant;
mod group_commit;
mod guard;
mod history;
mod keys;
mod lane;
mod leader;
mod limits;
mod list;
mod listen;
mod lock;
mod maintain;
mod migrate;
mod new_row;
mod once;
mod open_claims;
mod options;
mod owner;
mod pools;
mod privileges;
mod promote;
mod query;
mod record;
mod report;
mod results;
mod retention;
mod row;
mod schedule;
mod schedules;
mod segment;
mod server;
mod session;
mod settings;
mod settle;
mod sql;
mod sql_call;
mod statement;
mod stats;
mod store;
mod texts;
mod timings;
mod tls;
mod transaction;
mod turns;
mod unique;
mod unique_single;
mod unique_terms;
mod verifier;
mod wakeup;
mod worker;

pub use access::Access;
pub use error::sqlstate_error;
pub use options::PostgresOptions;
pub use sql_call::{SqlCall, SqlParam, check_sql_jobs};
pub use store::PostgresStore;
