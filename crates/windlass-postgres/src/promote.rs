//! Makes jobs available whose time has come.

use crate::{database::Database, error::Effect, lock::lock, query::Query, row::from_ms};
use jiff::Timestamp;
use std::time::Instant;
use tokio_postgres::types::Type;
use windlass_core::{Promoted, Result};

/// Where promotion looks from: a time and an id.
type Position = (Timestamp, i64);

pub(crate) async fn promote(db: &Database, limit: u32) -> Result<Promoted> {
    let from = lock(&db.caches.due).position();
    let asked_at = Instant::now();
    let (promoted, position) = promote_on(db, &db.upkeep("promote").await?, limit, from).await?;
    if let Some(position) = position {
        lock(&db.caches.due).looked(position, from.is_none().then(|| asked_at.elapsed()));
    }
    Ok(promoted)
}

/// Promotes from there on, or from the beginning. Also from where the next call may look.
pub(crate) async fn promote_on(
    db: &Database,
    on: &impl Query,
    limit: u32,
    from: Option<Position>,
) -> Result<(Promoted, Option<Position>)> {
    let limit = i32::try_from(limit).unwrap_or(i32::MAX);
    let (at, id) = from.unzip();
    let row = on
        .query_one(
            &db.sql("SELECT promoted, next_due_ms, from_at, from_id FROM {schema}.promote($1, $2, $3)"),
            &[(&limit, Type::INT4), (&at, Type::TIMESTAMPTZ), (&id, Type::INT8)],
            Effect::Repeatable,
        )
        .await?;
    let promoted = Promoted {
        count: row.get::<_, i64>(0).unsigned_abs(),
        next_due: row.get::<_, Option<f64>>(1).map(from_ms),
    };
    Ok((promoted, row.get::<_, Option<_>>(2).zip(row.get(3))))
}
