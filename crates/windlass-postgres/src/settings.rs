//! The policy of the store: one row, the same for every worker; and one of the audit log's.

use crate::{
    database::Database,
    error::Effect,
    query::{Param, Query},
};
use std::time::Duration;
use tokio_postgres::{Row, types::Type};
use windlass_core::{Error, ErrorKind, Result, Settings, SettingsChange};

pub(crate) async fn settings(db: &Database) -> Result<Settings> {
    let sql = db.sql(
        "SELECT extract(epoch FROM retention)::float8, extract(epoch FROM dead_retention)::float8, segment_bytes, max_crashes
         FROM {schema}.setting",
    );
    let connection = db.client("settings").await?;
    let row = connection.query_one(&sql, &[], Effect::Repeatable).await?;
    let time =
        |row: &Row, index| Duration::try_from_secs_f64(row.get::<_, f64>(index)).unwrap_or(Settings::LONGEST);
    let settings = Settings::default()
        .with_retention(time(&row, 0))
        .with_dead_retention(time(&row, 1))
        .with_segment_bytes(row.get::<_, i64>(2).unsigned_abs())
        .with_max_crashes(row.get::<_, i16>(3).unsigned_abs());
    let sql = db.sql("SELECT extract(epoch FROM retention)::float8 FROM {schema}.audit_setting");
    match connection.query_one(&sql, &[], Effect::Repeatable).await {
        // Not migrated to version 16 yet: there is no audit log.
        Err(error) if error.kind() == ErrorKind::SchemaMissing => Ok(settings),
        row => Ok(settings.with_audit_retention(time(&row?, 0))),
    }
}

pub(crate) async fn change(db: &Database, change: &SettingsChange) -> Result<()> {
    change.check()?;
    db.by_turns("configure", |on| async move { change_on(db, &on, change).await }).await
}

/// NULL leaves a value as it is.
pub(crate) async fn change_on(db: &Database, on: &impl Query, change: &SettingsChange) -> Result<()> {
    let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
    let (keep, keep_dead) = (seconds(change.retention), seconds(change.dead_retention));
    let bytes = change.segment_bytes.map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
    let crashes = change.max_crashes.map(|crashes| i16::try_from(crashes).unwrap_or(i16::MAX));
    let keep_audit = seconds(change.audit_retention);
    let params: [Param<'_>; 5] = [
        (&keep, Type::FLOAT8),
        (&keep_dead, Type::FLOAT8),
        (&bytes, Type::INT8),
        (&crashes, Type::INT2),
        (&keep_audit, Type::FLOAT8),
    ];
    let older = "SELECT {schema}.configure(make_interval(secs => $1), make_interval(secs => $2), $3, $4)";
    let sql = db.sql(&format!("{older}, {{schema}}.configure_audit(make_interval(secs => $5))"));
    match on.query(&sql, &params, Effect::Repeatable).await {
        // Not migrated to version 16 yet: there is no audit log that another value would be for.
        Err(error)
            if error.kind() == ErrorKind::SchemaMissing
                && change.audit_retention.is_none_or(|time| time == Settings::DEFAULT.audit_retention) =>
        {
            on.query(&db.sql(older), &params[..4], Effect::Repeatable).await.map(drop)
        }
        Err(error) if error.kind() == ErrorKind::SchemaMissing => {
            let message = "the schema is older than the audit log; run `windlass migrate`, or leave audit_retention as it is";
            Err(Error::new(ErrorKind::SchemaTooOld, message).with_source(error))
        }
        done => done.map(drop),
    }
}
