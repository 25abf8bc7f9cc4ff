//! Who of the workers keeps house.

use crate::{database::Database, error::Effect, query::Query};
use std::time::Duration;
use tokio_postgres::types::Type;
use windlass_core::{Result, WorkerId};

pub(crate) async fn lead(db: &Database, worker: WorkerId, term: Duration) -> Result<bool> {
    let term = term.as_secs_f64();
    let row = db
        .settles("lead")
        .await?
        .query_one(
            &db.sql("SELECT {schema}.lead($1, make_interval(secs => $2))"),
            &[(&worker.0, Type::INT4), (&term, Type::FLOAT8)],
            Effect::Repeatable,
        )
        .await?;
    Ok(row.get(0))
}

pub(crate) async fn resign(db: &Database, worker: WorkerId) -> Result<()> {
    db.settles("resign")
        .await?
        .query(
            &db.sql("DELETE FROM {schema}.leader WHERE worker_id = $1"),
            &[(&worker.0, Type::INT4)],
            Effect::Repeatable,
        )
        .await?;
    Ok(())
}
