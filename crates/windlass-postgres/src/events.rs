//! What happened to jobs, page by page.

use crate::{
    database::Database,
    deadline::Patience,
    error::Effect,
    query::Query,
    row::{count, get},
};
use jiff::Timestamp;
use std::sync::Arc;
use tokio_postgres::{Row, types::Type};
use windlass_core::{
    ErrorKind, EventCursor, EventPage, EventRequest, EventType, JobEvent, JobId, Result, WorkerId,
};

const EVENTS: &str = "SELECT cursor, job_id, event, at, queue, kind, attempt::bigint, worker_id, reason, more
    FROM {schema}.events($1, $2, $3, $4, $5)";

pub(crate) async fn events(db: &Database, request: &EventRequest) -> Result<EventPage> {
    request.check()?;
    let mut connection = db.client("read events").await?;
    connection.begin_long(Patience::Long).await?;
    let limit = i32::try_from(request.limit).unwrap_or(i32::MAX);
    let types: Vec<&str> = request.types.iter().map(|event| event.as_str()).collect();
    let (queues, kinds, types) = (given(&request.queues), given(&request.kinds), given(&types));
    let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 5] = [
        (&request.cursor.as_str(), Type::TEXT),
        (&limit, Type::INT4),
        (&queues, Type::TEXT_ARRAY),
        (&kinds, Type::TEXT_ARRAY),
        (&types, Type::TEXT_ARRAY),
    ];
    // Reading again what was read gives the same.
    let answer = connection.query(&db.sql(EVENTS), &params, Effect::Repeatable).await;
    let rows = answer.map_err(|error| match error.kind() {
        ErrorKind::SchemaMissing => windlass_core::Error::new(
            ErrorKind::SchemaTooOld,
            "the schema is older than events; run `windlass migrate`",
        ),
        _ => error,
    })?;
    let mut page =
        EventPage { events: Vec::with_capacity(rows.len()), next: request.cursor.clone(), more: false };
    for row in &rows {
        let cursor = EventCursor::from(get::<&str>(row, 0)?);
        match get::<Option<&str>>(row, 2)? {
            Some(event) => page.events.push(read_event(row, cursor, event.parse()?)?),
            None => (page.next, page.more) = (cursor, get(row, 9)?),
        }
    }
    Ok(page)
}

/// A filter, if there is one.
fn given<T>(values: &[T]) -> Option<&[T]> {
    (!values.is_empty()).then_some(values)
}

fn read_event(row: &Row, cursor: EventCursor, event: EventType) -> Result<JobEvent> {
    let at: Timestamp = get(row, 3)?;
    let mut event = JobEvent::new(cursor, event, JobId(get(row, 1)?), at);
    event.queue = Arc::from(get::<&str>(row, 4)?);
    event.kind = Arc::from(get::<&str>(row, 5)?);
    event.attempt = u16::try_from(count(row, 6)?).unwrap_or(u16::MAX);
    event.worker = get::<Option<i32>>(row, 7)?.map(WorkerId);
    event.reason = get(row, 8)?;
    Ok(event)
}
