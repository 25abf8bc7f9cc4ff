//! What is kept of single queues and outcomes.

use crate::{
    database::Database,
    error::Effect,
    query::{Param, Query},
    row::get,
};
use std::time::Duration;
use tokio_postgres::types::Type;
use windlass_core::{Error, ErrorKind, Result, RetentionRule, Settings};

pub(crate) async fn retention(db: &Database) -> Result<Vec<RetentionRule>> {
    let sql =
        db.sql("SELECT queue, outcome, extract(epoch FROM age)::float8, count FROM {schema}.retention_rule");
    let connection = db.client("retention").await?;
    let rows = connection.query(&sql, &[], Effect::Repeatable).await.map_err(too_old)?;
    let mut rules = Vec::with_capacity(rows.len());
    for row in &rows {
        let mut rule = RetentionRule::of_every_queue(get::<&str>(row, 1)?.parse()?);
        rule.queue = RetentionRule::queue_of(get(row, 0)?);
        rule.age = get::<Option<f64>>(row, 2)?
            .map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Settings::LONGEST));
        rule.count = get::<Option<i64>>(row, 3)?.map(i64::unsigned_abs);
        rules.push(rule);
    }
    RetentionRule::sort(&mut rules);
    Ok(rules)
}

/// Keeps rules, all or none.
pub(crate) async fn set(db: &Database, rules: &[RetentionRule]) -> Result<()> {
    RetentionRule::check_all(rules)?;
    let queues: Vec<&str> = rules.iter().map(RetentionRule::queue_name).collect();
    let outcomes: Vec<&str> = rules.iter().map(|rule| rule.outcome.as_str()).collect();
    let ages: Vec<Option<f64>> = rules.iter().map(|rule| rule.age.map(|age| age.as_secs_f64())).collect();
    let counts: Vec<Option<i64>> =
        rules.iter().map(|rule| rule.count.map(|count| i64::try_from(count).unwrap_or(i64::MAX))).collect();
    let sql = db.sql(
        "SELECT {schema}.set_retention(r.queue, r.outcome, make_interval(secs => r.age), r.count)
         FROM unnest($1, $2, $3, $4) AS r(queue, outcome, age, count) ORDER BY r.age IS NOT NULL OR r.count IS NOT NULL",
    );
    let params: &[Param<'_>; 4] = &[
        (&queues, Type::TEXT_ARRAY),
        (&outcomes, Type::TEXT_ARRAY),
        (&ages, Type::FLOAT8_ARRAY),
        (&counts, Type::INT8_ARRAY),
    ];
    let sql = &sql;
    db.by_turns("set retention", |on| async move { on.query(sql, params, Effect::Repeatable).await })
        .await
        .map(drop)
        .map_err(too_old)
}

/// Table and function are missing in a schema that is older than this program.
fn too_old(error: Error) -> Error {
    if error.kind() != ErrorKind::SchemaMissing {
        return error;
    }
    let message = "the schema is older than retention by queue and outcome; run `windlass migrate`";
    Error::new(ErrorKind::SchemaTooOld, message).with_source(error)
}
