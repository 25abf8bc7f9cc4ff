//! Where the statements of a call run.

use crate::error::{Effect, store_error};
use std::future::Future;
use tokio_postgres::{
    Client, Row,
    types::{ToSql, Type},
};
use windlass_core::{Error, ErrorKind, Result};

/// A parameter with its type, so that a statement needs no round trip to be described.
pub(crate) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// A connection of the pools, or one on which a transaction is open.
pub(crate) trait Query: Sync {
    fn query(
        &self,
        sql: &str,
        params: &[Param<'_>],
        effect: Effect,
    ) -> impl Future<Output = Result<Vec<Row>>> + Send;

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
    async fn query(&self, sql: &str, params: &[Param<'_>], effect: Effect) -> Result<Vec<Row>> {
        self.query_typed(sql, params).await.map_err(|cause| store_error(cause, effect))
    }
}
