//! Makes jobs available whose time has come.

use crate::{database::Database, error::Effect, lock::lock, row::from_ms};
use std::time::Instant;
use tokio_postgres::types::Type;
use windlass_core::{Promoted, Result};

pub(crate) async fn promote(db: &Database, limit: u32) -> Result<Promoted> {
    let limit = i32::try_from(limit).unwrap_or(i32::MAX);
    let from = lock(&db.caches.due).position();
    let (at, id) = from.map_or((None, None), |(at, id)| (Some(at), Some(id)));
    let asked_at = Instant::now();
    let row = db
        .upkeep("promote")
        .await?
        .query_one(
            &db.sql("SELECT promoted, next_due_ms, from_at, from_id FROM {schema}.promote($1, $2, $3)"),
            &[(&limit, Type::INT4), (&at, Type::TIMESTAMPTZ), (&id, Type::INT8)],
            Effect::Repeatable,
        )
        .await?;
    if let (Some(at), Some(id)) = (row.get(2), row.get(3)) {
        lock(&db.caches.due).looked((at, id), from.is_none().then(|| asked_at.elapsed()));
    }
    Ok(Promoted {
        count: row.get::<_, i64>(0).unsigned_abs(),
        next_due: row.get::<_, Option<f64>>(1).map(from_ms),
    })
}
