use super::SqlTransaction;
use tokio_postgres::{
    Transaction,
    types::{ToSql, Type},
};
use windlass_core::{Error, ErrorKind, JobId, NewJob, Result};
use windlass_postgres::{PostgresStore, SqlCall, SqlParam, sqlstate_error};

impl SqlTransaction for &Transaction<'_> {
    async fn run(self, call: SqlCall) -> Result<Vec<i64>> {
        let params: Vec<(&(dyn ToSql + Sync), Type)> = call.params.iter().map(typed).collect();
        let rows = self.query_typed(&call.text, &params).await.map_err(store_error)?;
        rows.iter().map(|row| row.try_get(0).map_err(store_error)).collect()
    }

    /// By COPY where that is faster.
    async fn enqueue(self, store: &PostgresStore, jobs: &[NewJob]) -> Result<Vec<JobId>> {
        store.enqueue_in(self, jobs).await
    }
}

fn typed(param: &SqlParam) -> (&(dyn ToSql + Sync), Type) {
    match param {
        SqlParam::Text(value) => (value, Type::TEXT),
        SqlParam::Int4(value) => (value, Type::INT4),
        SqlParam::Int8(value) => (value, Type::INT8),
    }
}

fn store_error(cause: tokio_postgres::Error) -> Error {
    let error = match cause.as_db_error() {
        Some(error) => sqlstate_error(error.code().code(), error.message()),
        None => Error::new(ErrorKind::Unavailable, format!("connection to PostgreSQL lost: {cause}")),
    };
    error.with_source(cause)
}
