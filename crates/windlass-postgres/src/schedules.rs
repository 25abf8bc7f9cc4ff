//! Schedules. The rules are in sql/functions/50_schedules.sql and 51_advance.sql.

use crate::{
    database::Database,
    error::Effect,
    lock::lock,
    new_row::attempts,
    query::{Param, Query},
    row::{Json, JsonText, from_ms, get},
    schedule::microseconds,
    store::PostgresStore,
};
use async_trait::async_trait;
use jiff::Timestamp;
use std::time::Instant;
use tokio_postgres::{Row, types::Type};
use windlass_core::{
    DueSchedules, Error, ErrorKind, JobId, Result, Schedule, ScheduleFilter, SchedulePut, ScheduleRecord,
    ScheduleStep, ScheduleStore, SchedulesPut,
};

/// The columns of a record, in the order in which [`read`] takes them.
const COLUMNS: &str = "name, source, definition, paused, version, decided, next_tick, due_at, last_tick, last_job, last_enqueued_at,
    queued_tick, error";
/// How long before the longest due one the next look begins: what was being committed meanwhile is found.
const SLACK: jiff::SignedDuration = jiff::SignedDuration::from_secs(1);

#[async_trait]
impl ScheduleStore for PostgresStore {
    async fn put_schedules(&self, schedules: &[Schedule], prune: Option<&str>) -> Result<SchedulesPut> {
        self.limits.check_schedules(schedules)?;
        let db = &self.db;
        db.by_turns("put_schedules", |on| async move { declare_on(db, &on, schedules, prune).await }).await
    }

    async fn schedules(&self, filter: &ScheduleFilter) -> Result<Vec<ScheduleRecord>> {
        filter.check()?;
        list_on(&self.db, &self.db.client("schedules").await?, filter).await
    }

    async fn remove_schedules(&self, names: &[String]) -> Result<Vec<bool>> {
        let (db, sql) = (&self.db, "SELECT {schema}.remove_schedules($1)");
        let removed = db.by_turns("remove_schedules", |on| async move {
            ask_one(db, &on, sql, &[(&names, Type::TEXT_ARRAY)]).await
        });
        get(&removed.await?, 0)
    }

    async fn pause_schedules(&self, names: &[String], paused: bool) -> Result<Vec<bool>> {
        let db = &self.db;
        db.by_turns("pause_schedules", |on| async move { pause_on(db, &on, names, paused).await }).await
    }

    async fn due_schedules(&self, limit: u32) -> Result<DueSchedules> {
        due(&self.db, limit).await
    }

    async fn advance_schedules(&self, steps: &[ScheduleStep]) -> Result<Vec<Option<Vec<JobId>>>> {
        for step in steps {
            self.limits.check(&step.jobs)?;
        }
        if steps.is_empty() {
            return Ok(Vec::new());
        }
        let taken = advance_on(&self.db, &self.db.client("advance_schedules").await?, steps).await?;
        let position = lock(&self.db.caches.due_schedules).position();
        if let Some((at, _)) = position
            && steps.iter().any(|step| step.due_at.is_some_and(|due| due < at))
        {
            lock(&self.db.caches.due_schedules).forget();
        }
        Ok(taken)
    }
}

/// Repeating one of these calls changes nothing.
async fn ask_one(db: &Database, on: &impl Query, sql: &str, params: &[Param<'_>]) -> Result<Row> {
    on.query_one(&db.sql(sql), params, Effect::Repeatable).await.map_err(too_old)
}

pub(crate) async fn declare_on(
    db: &Database,
    on: &impl Query,
    schedules: &[Schedule],
    prune: Option<&str>,
) -> Result<SchedulesPut> {
    let names: Vec<_> = schedules.iter().map(Schedule::name).collect();
    let sources: Vec<_> = schedules.iter().map(Schedule::source).collect();
    let definitions: Vec<_> = schedules.iter().map(Schedule::to_json).collect();
    let params: [Param<'_>; 4] = [
        (&names, Type::TEXT_ARRAY),
        (&sources, Type::TEXT_ARRAY),
        (&definitions, Type::TEXT_ARRAY),
        (&prune, Type::TEXT),
    ];
    let sql = "SELECT puts, pruned FROM {schema}.put_schedules($1, $2, $3, $4)";
    let row = ask_one(db, on, sql, &params).await?;
    let puts: Vec<&str> = get(&row, 0)?;
    Ok(SchedulesPut { puts: puts.into_iter().map(read_put).collect(), pruned: get(&row, 1)? })
}

pub(crate) async fn list_on(
    db: &Database,
    on: &impl Query,
    filter: &ScheduleFilter,
) -> Result<Vec<ScheduleRecord>> {
    let ScheduleFilter { name, source, after, limit } = filter;
    let limit = i64::from((*limit).min(ScheduleFilter::MOST));
    let mut sql = format!("SELECT {COLUMNS} FROM {{schema}}.schedule WHERE name > $1 COLLATE \"C\"");
    let mut params: Vec<Param<'_>> = Vec::new();
    let after = after.as_deref().unwrap_or_default();
    params.push((&after, Type::TEXT));
    for (column, value) in [("name", name), ("source", source)] {
        if value.is_some() {
            params.push((value, Type::TEXT));
            sql.push_str(&format!(" AND {column} = ${} COLLATE \"C\"", params.len()));
        }
    }
    if source.as_ref().is_some_and(|source| !source.is_empty()) {
        sql.push_str(" AND source <> ''"); // so that the index of sources serves
    }
    params.push((&limit, Type::INT8));
    sql.push_str(&format!(" ORDER BY name LIMIT ${}", params.len()));
    let rows = on.query(&db.sql(&sql), &params, Effect::Repeatable).await.map_err(too_old)?;
    rows.iter().map(|row| read(row, 0)).collect()
}

pub(crate) async fn pause_on(
    db: &Database,
    on: &impl Query,
    names: &[String],
    paused: bool,
) -> Result<Vec<bool>> {
    let sql = "SELECT {schema}.pause_schedules($1, $2)";
    let params: [Param<'_>; 2] = [(&names, Type::TEXT_ARRAY), (&paused, Type::BOOL)];
    get(&ask_one(db, on, sql, &params).await?, 0)
}

async fn due(db: &Database, limit: u32) -> Result<DueSchedules> {
    let from = lock(&db.caches.due_schedules).position().map(|(at, _)| at);
    let asked_at = Instant::now();
    let limit = i32::try_from(limit).unwrap_or(i32::MAX);
    let sql = format!("SELECT at, next_due_ms, {COLUMNS} FROM {{schema}}.due_schedules($1, $2)");
    let params: [Param<'_>; 2] = [(&limit, Type::INT4), (&from, Type::TIMESTAMPTZ)];
    let connection = db.upkeep("due_schedules").await?;
    let rows = connection.query(&db.sql(&sql), &params, Effect::Repeatable).await.map_err(too_old)?;
    let first =
        rows.first().ok_or_else(|| Error::new(ErrorKind::Internal, "due_schedules answered nothing"))?;
    let now: Timestamp = get(first, 0)?;
    let next_due = get::<Option<f64>>(first, 1)?.map(from_ms);
    let mut due = Vec::new();
    for row in &rows {
        if get::<Option<&str>>(row, 2)?.is_some() {
            due.push(read(row, 2)?);
        }
    }
    // What is due stays in sight until a step puts it off.
    let longest = due.first().and_then(|record| record.due_at).unwrap_or(now).min(now);
    let position = longest.checked_sub(SLACK).unwrap_or(longest);
    lock(&db.caches.due_schedules).looked((position, 0), from.is_none().then(|| asked_at.elapsed()));
    Ok(DueSchedules { now, due, next_due })
}

pub(crate) async fn advance_on(
    db: &Database,
    on: &impl Query,
    steps: &[ScheduleStep],
) -> Result<Vec<Option<Vec<JobId>>>> {
    let all = || steps.iter();
    let names: Vec<_> = all().map(|step| &*step.name).collect();
    let versions: Vec<_> = all().map(|step| step.version).collect();
    let decided: Vec<_> = all().map(|step| step.decided).collect();
    let next: Vec<_> = all().map(|step| step.next_tick).collect();
    let due: Vec<_> = all().map(|step| step.due_at).collect();
    let last: Vec<_> = all().map(|step| step.last_tick).collect();
    let queued: Vec<_> = all().map(|step| step.queued_tick).collect();
    let errors: Vec<_> = all().map(|step| step.error.as_deref()).collect();
    let jobs = || (1_i32..).zip(steps).flat_map(|(n, step)| step.jobs.iter().map(move |job| (n, job)));
    let owners: Vec<_> = jobs().map(|(n, _)| n).collect();
    let queues: Vec<_> = jobs().map(|(_, job)| job.queue()).collect();
    let priorities: Vec<_> = jobs().map(|(_, job)| i32::from(job.priority())).collect();
    let kinds: Vec<_> = jobs().map(|(_, job)| job.kind()).collect();
    let args: Vec<_> = jobs().map(|(_, job)| Json(job.args().as_str())).collect();
    let most: Vec<_> = jobs().map(|(_, job)| attempts(job)).collect();
    let attributes: Vec<_> =
        jobs().map(|(_, job)| job.attributes().map(|of| of.to_json()).unwrap_or_default()).collect();
    let expiry = |job: &windlass_core::NewJob| job.attributes()?.expires_after.map(microseconds);
    let expiries: Vec<_> = jobs().map(|(_, job)| expiry(job)).collect();
    let params: [Param<'_>; 16] = [
        (&names, Type::TEXT_ARRAY),
        (&versions, Type::INT8_ARRAY),
        (&decided, Type::TIMESTAMPTZ_ARRAY),
        (&next, Type::TIMESTAMPTZ_ARRAY),
        (&due, Type::TIMESTAMPTZ_ARRAY),
        (&last, Type::TIMESTAMPTZ_ARRAY),
        (&queued, Type::TIMESTAMPTZ_ARRAY),
        (&errors, Type::TEXT_ARRAY),
        (&owners, Type::INT4_ARRAY),
        (&queues, Type::TEXT_ARRAY),
        (&priorities, Type::INT4_ARRAY),
        (&kinds, Type::TEXT_ARRAY),
        (&args, Type::JSON_ARRAY),
        (&most, Type::INT2_ARRAY),
        (&attributes, Type::TEXT_ARRAY),
        (&expiries, Type::INT8_ARRAY),
    ];
    let sql = "SELECT taken, ids FROM {schema}.advance_schedules($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)";
    let row = on.query_one(&db.sql(sql), &params, Effect::Write).await.map_err(too_old)?;
    let (taken, ids): (Vec<bool>, Vec<Option<i64>>) = (get(&row, 0)?, get(&row, 1)?);
    let mut ids = ids.into_iter();
    let reply = |(step, taken): (&ScheduleStep, bool)| {
        let ids: Vec<_> = ids.by_ref().take(step.jobs.len()).flatten().map(JobId).collect();
        taken.then_some(ids)
    };
    Ok(steps.iter().zip(taken).map(reply).collect())
}

/// Reads the columns of a record from this one on.
fn read(row: &Row, from: usize) -> Result<ScheduleRecord> {
    let definition = get::<JsonText<'_>>(row, from + 2)?.text()?.to_owned();
    let (name, source) = (get(row, from)?, get(row, from + 1)?);
    let mut record = ScheduleRecord::new(name, source, definition, get(row, from + 4)?, get(row, from + 5)?);
    record.paused = get(row, from + 3)?;
    record.next_tick = get(row, from + 6)?;
    record.due_at = get(row, from + 7)?;
    record.last_tick = get(row, from + 8)?;
    record.last_job = get::<Option<i64>>(row, from + 9)?.map(JobId);
    record.last_enqueued_at = get(row, from + 10)?;
    record.queued_tick = get(row, from + 11)?;
    record.error = get(row, from + 12)?;
    Ok(record)
}

fn read_put(word: &str) -> SchedulePut {
    match word {
        "created" => SchedulePut::Created,
        "changed" => SchedulePut::Changed,
        _ => SchedulePut::Unchanged,
    }
}

fn too_old(error: Error) -> Error {
    if error.kind() != ErrorKind::SchemaMissing {
        return error;
    }
    let message = "the schema is older than schedules; run `windlass migrate`";
    Error::new(ErrorKind::SchemaTooOld, message).with_source(error)
}
