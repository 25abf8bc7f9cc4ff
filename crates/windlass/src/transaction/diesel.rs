use super::{SqlTransaction, open};
use diesel::{
    QueryableByName,
    pg::Pg,
    result::{DatabaseErrorKind, Error as DieselError},
    sql_types::{BigInt, Integer, Text},
};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use windlass_core::{Error, ErrorKind, Result};
use windlass_postgres::{SqlCall, SqlParam, sqlstate_error};

#[derive(QueryableByName)]
struct Row {
    #[diesel(sql_type = BigInt)]
    id: i64,
}

impl SqlTransaction for &mut AsyncPgConnection {
    async fn run(self, call: SqlCall) -> Result<Vec<i64>> {
        let mut query = diesel::sql_query(call.text).into_boxed::<Pg>();
        for param in call.params {
            query = match param {
                SqlParam::Text(value) => query.bind::<Text, _>(value),
                SqlParam::Int4(value) => query.bind::<Integer, _>(value),
                SqlParam::Int8(value) => query.bind::<BigInt, _>(value),
            };
        }
        let rows: Vec<Row> = query.load(self).await.map_err(store_error)?;
        Ok(rows.into_iter().map(|row| row.id).collect())
    }

    async fn complete(self, call: SqlCall) -> Result<()> {
        let number = SqlTransaction::run(&mut *self, open::number(call.clone())).await?;
        open::run_in(&number, self, call).await
    }
}

/// How our SQL functions refuse a job that is not, or no longer, the worker's. Diesel keeps SQLSTATEs to itself.
const LEASE_LOST: [&str; 3] = ["lost its lease", "is not held by worker", "is settled already"];

fn store_error(cause: DieselError) -> Error {
    let error = match &cause {
        DieselError::DatabaseError(DatabaseErrorKind::ClosedConnection, info) => {
            Error::new(ErrorKind::Unavailable, format!("connection to PostgreSQL lost: {}", info.message()))
        }
        DieselError::DatabaseError(_, info) => {
            let message = info.message();
            match LEASE_LOST.iter().any(|words| message.contains(words)) {
                true => sqlstate_error("WL001", message),
                false => Error::new(ErrorKind::Internal, format!("PostgreSQL: {message}")),
            }
        }
        _ => Error::new(ErrorKind::Internal, format!("diesel: {cause}")),
    };
    error.with_source(cause)
}
