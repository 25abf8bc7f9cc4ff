//! Limits of the keys of a queue. The rules are in sql/functions/74_key_limits.sql.

use crate::{
    connection::Connection,
    database::Database,
    error::Effect,
    query::{Param, Query},
    row::get,
};
use std::{collections::BTreeMap, time::Duration};
use tokio_postgres::types::Type;
use windlass_core::{Error, ErrorKind, KeyLimit, KeyLimits, KeyLimitsChange, Limits, RateLimit, Result};

/// Changes the limits of a queue's keys.
pub(crate) async fn limit(db: &Database, queue: &str, change: &KeyLimitsChange) -> Result<()> {
    change.check()?;
    Limits::check_queue_name(queue)?;
    db.by_turns("limit_keys", |on| async move { limit_on(db, &on, queue, change).await }).await?;
    if *change == KeyLimitsChange::Off {
        // What waits for its key goes back to where other jobs are. Should this end halfway, claims do the rest.
        let sql = &db.sql("SELECT {schema}.empty_keyed_lanes($1)");
        let some = |on: Connection| async move {
            let row = on.query_one(sql, &[(&queue, Type::TEXT)], Effect::Repeatable).await?;
            get::<bool>(&row, 0)
        };
        while db.by_turns("limit_keys", some).await? {}
    }
    Ok(())
}

pub(crate) async fn limit_on(
    db: &Database,
    on: &impl Query,
    queue: &str,
    change: &KeyLimitsChange,
) -> Result<()> {
    let done = match change {
        KeyLimitsChange::Off => {
            let sql = db.sql("SELECT {schema}.unlimit_keys($1)");
            on.query(&sql, &[(&queue, Type::TEXT)], Effect::Repeatable).await
        }
        KeyLimitsChange::Default(limit) => {
            let sql = db.sql(match limit.rate {
                // Also on a schema that knows no rates.
                None => "SELECT {schema}.limit_keys($1, $2, $3, $4)",
                Some(_) => {
                    "SELECT {schema}.limit_keys($1, $2, $3, $4, $5, $6::int8 * interval '1 microsecond')"
                }
            });
            let (rate, period) = rate_of(limit);
            let params: [Param<'_>; 6] = [
                (&queue, Type::TEXT),
                (&limit.concurrency.map(int4), Type::INT4),
                (&limit.serial, Type::BOOL),
                (&i32::from(limit.weight), Type::INT4),
                (&rate, Type::INT4),
                (&period, Type::INT8),
            ];
            let known = if limit.rate.is_some() { 6 } else { 4 };
            on.query(&sql, &params[..known], Effect::Repeatable).await
        }
        KeyLimitsChange::Named(named) => {
            let any_rate = named.iter().any(|(_, limit)| limit.is_some_and(|limit| limit.rate.is_some()));
            let sql = db.sql(match any_rate {
                false => "SELECT {schema}.put_key_limits($1, $2, $3, $4, $5)",
                true => {
                    "SELECT {schema}.put_key_limits($1, $2, $3, $4, $5, $6, ARRAY(SELECT u.us * interval '1 microsecond'
                        FROM unnest($7::int8[]) WITH ORDINALITY AS u(us, n) ORDER BY u.n))"
                }
            });
            let keys: Vec<&str> = named.iter().map(|(key, _)| &**key).collect();
            let limits = || named.iter().map(|(_, limit)| limit);
            let concurrency: Vec<Option<i32>> =
                limits().map(|limit| limit.and_then(|limit| limit.concurrency).map(int4)).collect();
            let serial: Vec<bool> = limits().map(|limit| limit.is_some_and(|limit| limit.serial)).collect();
            let weights: Vec<Option<i32>> =
                limits().map(|limit| limit.map(|limit| i32::from(limit.weight))).collect();
            let (rates, periods): (Vec<Option<i32>>, Vec<Option<i64>>) =
                limits().map(|limit| limit.as_ref().map_or((None, None), rate_of)).unzip();
            let params: [Param<'_>; 7] = [
                (&queue, Type::TEXT),
                (&keys, Type::TEXT_ARRAY),
                (&concurrency, Type::INT4_ARRAY),
                (&serial, Type::BOOL_ARRAY),
                (&weights, Type::INT4_ARRAY),
                (&rates, Type::INT4_ARRAY),
                (&periods, Type::INT8_ARRAY),
            ];
            let known = if any_rate { 7 } else { 5 };
            on.query(&sql, &params[..known], Effect::Repeatable).await
        }
    };
    done.map(drop).map_err(too_old)
}

/// The limits of a queue's keys.
pub(crate) async fn limits(db: &Database, queue: &str) -> Result<Option<KeyLimits>> {
    let sql = db.sql(
        "SELECT key, concurrency, serial, weight, rate, (extract(epoch FROM period) * 1000000)::int8 FROM {schema}.key_limits($1)",
    );
    let client = db.client("key_limits").await?;
    let rows = client.query(&sql, &[(&queue, Type::TEXT)], Effect::Repeatable).await.map_err(too_old)?;
    let mut named = BTreeMap::new();
    for row in &rows {
        let mut limit = KeyLimit::default();
        limit.concurrency = get::<Option<i32>>(row, 1)?.map(i32::unsigned_abs);
        limit.serial = get(row, 2)?;
        limit.weight = u16::try_from(get::<i32>(row, 3)?).unwrap_or(1);
        if let Some(count) = get::<Option<i32>>(row, 4)? {
            let period = get::<Option<i64>>(row, 5)?.unwrap_or_default().unsigned_abs();
            limit.rate = Some(RateLimit::new(count.unsigned_abs(), Duration::from_micros(period)));
        }
        named.insert(get::<String>(row, 0)?, limit);
    }
    Ok(named.remove("").map(|default| {
        let mut limits = KeyLimits::default();
        (limits.default, limits.named) = (default, named);
        limits
    }))
}

/// The count of a rate, and its period in microseconds.
fn rate_of(limit: &KeyLimit) -> (Option<i32>, Option<i64>) {
    let micros = |rate: RateLimit| i64::try_from(rate.period.as_micros()).unwrap_or(i64::MAX);
    (limit.rate.map(|rate| int4(rate.count)), limit.rate.map(micros))
}

fn int4(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// The functions are missing in a schema that is older than this program.
fn too_old(error: Error) -> Error {
    if error.kind() != ErrorKind::SchemaMissing {
        return error;
    }
    let message = "the schema is older than limits of keys; run `windlass migrate`";
    Error::new(ErrorKind::SchemaTooOld, message).with_source(error)
}
