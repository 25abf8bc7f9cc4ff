//! Jobs by their state, queue, kind, tag, error and args, page by page.

use crate::{
    database::Database,
    deadline::Patience,
    error::Effect,
    query::{Param, Query},
    record::job_record,
    row::get,
};
use tokio_postgres::types::Type;
use windlass_core::{Args, JobFilter, JobPage, PageToken, Result};

/// The column behind those of a job: where the page ended.
const NEXT: usize = 18;

pub(crate) async fn jobs(db: &Database, filter: &JobFilter) -> Result<JobPage> {
    filter.check()?;
    let state = filter.state.map(|state| state.as_str());
    let after = filter.position()?;
    let limit = i32::try_from(filter.limit).unwrap_or(i32::MAX);
    let (error, args) = (&filter.error, filter.args.as_ref().map(Args::as_str));
    let mut sql =
        "SELECT (p.job).*, p.next, p.attributes FROM {schema}.list_jobs($1, $2, $3, $4, $5, p_tag => $6"
            .to_owned();
    let mut params: Vec<Param<'_>> = vec![
        (&state, Type::TEXT),
        (&filter.queue, Type::TEXT),
        (&filter.kind, Type::TEXT),
        (&after, Type::INT8_ARRAY),
        (&limit, Type::INT4),
        (&filter.tag, Type::TEXT),
    ];
    // Only where it is asked for: a store that is not migrated yet goes on to list jobs by the others.
    if error.is_some() || args.is_some() {
        sql.push_str(", p_error => $7, p_args => $8::text::jsonb");
        params.extend::<[Param<'_>; 2]>([(error, Type::TEXT), (&args, Type::TEXT)]);
    }
    sql.push_str(") p");
    let mut connection = db.client("list jobs").await?;
    connection.begin_long(Patience::Long).await?;
    let rows = connection.query(&db.sql(&sql), &params, Effect::Repeatable).await?;
    let mut page = JobPage::default();
    for row in &rows {
        match get::<Option<Vec<i64>>>(row, NEXT)? {
            None => page.jobs.push(job_record(row)?),
            Some(position) => page.next = Some(PageToken::new(filter, &position)),
        }
    }
    Ok(page)
}
