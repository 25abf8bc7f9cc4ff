//! The policy of the store: one row, the same for every worker.

use crate::{
    database::Database,
    error::Effect,
    query::{Param, Query},
};
use std::time::Duration;
use tokio_postgres::types::Type;
use windlass_core::{Result, Settings};

pub(crate) async fn settings(db: &Database) -> Result<Settings> {
    let sql = db.sql(
        "SELECT extract(epoch FROM retention)::float8, extract(epoch FROM dead_retention)::float8, segment_bytes, max_crashes
         FROM {schema}.setting",
    );
    let row = db.client("settings").await?.query_one(&sql, &[], Effect::Repeatable).await?;
    let time = |index| Duration::try_from_secs_f64(row.get::<_, f64>(index)).unwrap_or(Settings::LONGEST);
    Ok(Settings::default()
        .with_retention(time(0))
        .with_dead_retention(time(1))
        .with_segment_bytes(row.get::<_, i64>(2).unsigned_abs())
        .with_max_crashes(row.get::<_, i16>(3).unsigned_abs()))
}

pub(crate) async fn configure(db: &Database, settings: &Settings) -> Result<()> {
    settings.check()?;
    configure_on(db, &db.client("configure").await?, settings).await
}

pub(crate) async fn configure_on(db: &Database, on: &impl Query, settings: &Settings) -> Result<()> {
    let (keep, keep_dead) = (settings.retention.as_secs_f64(), settings.dead_retention.as_secs_f64());
    let bytes = i64::try_from(settings.segment_bytes).unwrap_or(i64::MAX);
    let crashes = i16::try_from(settings.max_crashes).unwrap_or(i16::MAX);
    let sql =
        db.sql("SELECT {schema}.configure(make_interval(secs => $1), make_interval(secs => $2), $3, $4)");
    let params: [Param<'_>; 4] =
        [(&keep, Type::FLOAT8), (&keep_dead, Type::FLOAT8), (&bytes, Type::INT8), (&crashes, Type::INT2)];
    on.query(&sql, &params, Effect::Repeatable).await?;
    Ok(())
}
