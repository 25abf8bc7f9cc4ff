//! The segment of the log that jobs are appended to.

use crate::{
    connection::Connection, database::Database, error::Effect, migrate::without_rows, query::Query,
    texts::SEGMENTS,
};
use windlass_core::{Error, ErrorKind, Result};

/// The segment to write to, read again every few seconds.
pub(crate) async fn segment(db: &Database, connection: &Connection) -> Result<usize> {
    if let Some(segment) = db.caches.segment() {
        return Ok(segment);
    }
    let sql = db.sql("SELECT {schema}.current_segment()");
    let row = connection.query_one(&sql, &[], Effect::Repeatable).await?;
    let segment: i16 = row.get::<_, Option<i16>>(0).ok_or_else(|| without_rows(&db.schema))?;
    let known = usize::try_from(segment).ok().filter(|segment| *segment < SEGMENTS).ok_or_else(|| {
        Error::new(ErrorKind::Internal, format!("the log says segment {segment}, there are {SEGMENTS}"))
    })?;
    db.caches.note_segment(known);
    Ok(known)
}
