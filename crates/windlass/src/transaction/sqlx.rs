use super::{SqlTransaction, open};
use sqlx::{PgConnection, Postgres, Transaction};
use windlass_core::{Error, ErrorKind, Result};
use windlass_postgres::{SqlCall, SqlParam, sqlstate_error};

impl SqlTransaction for &mut PgConnection {
    async fn run(self, call: SqlCall) -> Result<Vec<i64>> {
        let mut query = sqlx::query_scalar(&call.text);
        for param in call.params {
            query = match param {
                SqlParam::Text(value) => query.bind(value),
                SqlParam::Int4(value) => query.bind(value),
                SqlParam::Int8(value) => query.bind(value),
            };
        }
        query.fetch_all(self).await.map_err(store_error)
    }

    async fn complete(self, call: SqlCall) -> Result<()> {
        let number = SqlTransaction::run(&mut *self, open::number(call.clone())).await?;
        open::run_in(&number, self, call).await
    }
}

impl SqlTransaction for &mut Transaction<'_, Postgres> {
    async fn run(self, call: SqlCall) -> Result<Vec<i64>> {
        SqlTransaction::run(&mut **self, call).await
    }
}

fn store_error(cause: sqlx::Error) -> Error {
    let told = cause.as_database_error().and_then(|error| Some((error.code()?, error.message())));
    let error = match (&told, &cause) {
        (Some((sqlstate, message)), _) => sqlstate_error(sqlstate, message),
        (None, sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) | sqlx::Error::Encode(_)) => {
            Error::new(ErrorKind::Internal, format!("sqlx: {cause}"))
        }
        (None, _) => Error::new(ErrorKind::Unavailable, format!("connection to PostgreSQL lost: {cause}")),
    };
    error.with_source(cause)
}
