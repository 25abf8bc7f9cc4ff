//! Whether a transaction is open on a connection: neither sqlx nor diesel says so of one that was begun by SQL.

use super::SqlTransaction;
use windlass_core::{Error, ErrorKind, Result};
use windlass_postgres::{SqlCall, SqlParam};

/// A call that gives the number of the transaction in which it runs, made of another call.
pub(super) fn number(mut call: SqlCall) -> SqlCall {
    "SELECT pg_current_xact_id()::text::int8 AS id".clone_into(&mut call.text);
    call.params.clear();
    call
}

/// Does a call in the transaction whose number was read, and in no other: where none is open each statement has one of its own.
pub(super) async fn run_in(number: &[i64], connection: impl SqlTransaction, mut call: SqlCall) -> Result<()> {
    call.params.extend(number.iter().copied().map(SqlParam::Int8));
    call.text += &format!(" WHERE pg_current_xact_id()::text::int8 = ${}", call.params.len());
    match connection.run(call).await?.is_empty() {
        false => Ok(()),
        true => Err(Error::new(
            ErrorKind::InvalidOption,
            "no transaction is open on the connection, so the job would be completed apart from its effects: begin one before these, and complete it there",
        )),
    }
}
