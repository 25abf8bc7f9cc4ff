//! Jobs by their state, queue, kind and tag, page by page.

use crate::{
    database::Database, deadline::Patience, error::Effect, query::Query, record::job_record, row::get,
};
use tokio_postgres::types::Type;
use windlass_core::{JobFilter, JobPage, PageToken, Result};

/// The column behind those of a job: where the page ended.
const NEXT: usize = 18;

pub(crate) async fn jobs(db: &Database, filter: &JobFilter) -> Result<JobPage> {
    filter.check()?;
    let state = filter.state.map(|state| state.as_str());
    let after = filter.position()?;
    let limit = i32::try_from(filter.limit).unwrap_or(i32::MAX);
    let mut connection = db.client("list jobs").await?;
    connection.begin_long(Patience::Long).await?;
    let rows = connection
        .query(
            &db.sql("SELECT (p.job).*, p.next, p.attributes FROM {schema}.list_jobs($1, $2, $3, $4, $5, p_tag => $6) p"),
            &[
                (&state, Type::TEXT),
                (&filter.queue, Type::TEXT),
                (&filter.kind, Type::TEXT),
                (&after, Type::INT8_ARRAY),
                (&limit, Type::INT4),
                (&filter.tag, Type::TEXT),
            ],
            Effect::Repeatable,
        )
        .await?;
    let mut page = JobPage::default();
    for row in &rows {
        match get::<Option<Vec<i64>>>(row, NEXT)? {
            None => page.jobs.push(job_record(row)?),
            Some(position) => page.next = Some(PageToken::new(filter, &position)),
        }
    }
    Ok(page)
}
