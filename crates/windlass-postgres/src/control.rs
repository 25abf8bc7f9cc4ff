use crate::{database::Database, deadline::Patience, error::Effect};
use tokio_postgres::types::Type;
use windlass_core::{CancelReply, Error, ErrorKind, JobId, Result, RetryReply};

pub(crate) async fn cancel(db: &Database, ids: &[JobId]) -> Result<Vec<CancelReply>> {
    each(db, "cancel", ids, "SELECT {schema}.cancel($1)", |word| match word {
        "cancelled" => Some(CancelReply::Cancelled),
        "running" => Some(CancelReply::Running),
        "finished" => Some(CancelReply::Finished),
        "not_found" => Some(CancelReply::NotFound),
        _ => None,
    })
    .await
}

pub(crate) async fn retry(db: &Database, ids: &[JobId]) -> Result<Vec<RetryReply>> {
    each(db, "retry", ids, "SELECT {schema}.retry($1)", |word| match word {
        "retried" => Some(RetryReply::Retried),
        "pending" => Some(RetryReply::Pending),
        "completed" => Some(RetryReply::Completed),
        "not_found" => Some(RetryReply::NotFound),
        _ => None,
    })
    .await
}

/// One short transaction per job: each holds its lane's lock, so a batch in one would stall claims.
async fn each<T>(
    db: &Database,
    what: &'static str,
    ids: &[JobId],
    sql: &str,
    read: impl Fn(&str) -> Option<T>,
) -> Result<Vec<T>> {
    let mut connection = db.client(what).await?;
    let sql = db.sql(sql);
    let mut replies = Vec::with_capacity(ids.len());
    for id in ids {
        connection.extend(Patience::Call);
        let row = connection.query_one(&sql, &[(&id.0, Type::INT8)], Effect::Repeatable).await?;
        let word: &str = row.get(0);
        replies.push(
            read(word).ok_or_else(|| Error::new(ErrorKind::Internal, format!("unknown answer {word:?}")))?,
        );
    }
    Ok(replies)
}

pub(crate) async fn pause(db: &Database, queue: &str, paused: bool) -> Result<()> {
    let sql = if paused { "SELECT {schema}.pause($1)" } else { "SELECT {schema}.resume($1)" };
    let row = db
        .client("pause")
        .await?
        .query_one(&db.sql(sql), &[(&queue, Type::TEXT)], Effect::Repeatable)
        .await?;
    if row.get(0) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::NotFound, format!("queue {queue:?} does not exist")))
}
