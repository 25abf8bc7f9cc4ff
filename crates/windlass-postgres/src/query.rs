//! Where the statements of a call run.

use crate::error::{Effect, store_error};
use futures_util::StreamExt;
use std::{future::Future, pin::pin};
use tokio_postgres::{
    Client, Row, RowStream,
    types::{ToSql, Type},
};
use windlass_core::{Error, ErrorKind, Result};

/// A parameter with its type, so that a statement needs no round trip to be described.
pub(crate) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// What takes the rows of an answer, each as it comes.
pub(crate) type Read<'a> = &'a mut (dyn FnMut(Row) -> Result<()> + Send);

/// A connection of the pools, or one on which a transaction is open.
pub(crate) trait Query: Sync {
    /// Runs one statement, and hands its rows to `read` while the server sends the others. What `read` fails with ends it;
    /// the statement was run then.
    fn each(
        &self,
        sql: &str,
        params: &[Param<'_>],
        effect: Effect,
        read: Read<'_>,
    ) -> impl Future<Output = Result<()>> + Send;

    fn query(
        &self,
        sql: &str,
        params: &[Param<'_>],
        effect: Effect,
    ) -> impl Future<Output = Result<Vec<Row>>> + Send {
        async move {
            let mut rows = Vec::new();
            let mut keep = |row| {
                rows.push(row);
                Ok(())
            };
            self.each(sql, params, effect, &mut keep).await?;
            Ok(rows)
        }
    }

    /// Runs one statement that answers exactly one row.
    fn query_one(
        &self,
        sql: &str,
        params: &[Param<'_>],
        effect: Effect,
    ) -> impl Future<Output = Result<Row>> + Send {
        async move {
            self.query(sql, params, effect).await?.pop().ok_or_else(|| {
                Error::new(ErrorKind::Internal, "PostgreSQL answered no row where one was expected")
            })
        }
    }
}

impl Query for Client {
    async fn each(&self, sql: &str, params: &[Param<'_>], effect: Effect, read: Read<'_>) -> Result<()> {
        read_each(self.query_typed_raw(sql, params.iter().cloned()), effect, read).await
    }
}

/// Reads what a statement answers.
pub(crate) async fn read_each(
    answer: impl Future<Output = Result<RowStream, tokio_postgres::Error>>,
    effect: Effect,
    read: Read<'_>,
) -> Result<()> {
    let failed = |cause| store_error(cause, effect);
    let mut rows = pin!(answer.await.map_err(failed)?);
    while let Some(row) = rows.next().await {
        read(row.map_err(failed)?)?;
    }
    Ok(())
}
