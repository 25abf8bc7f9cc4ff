use crate::{database::Database, deadline::Patience, error::Effect, query::Query};
use tokio_postgres::types::Type;
use windlass_core::{CancelReply, Error, ErrorKind, JobId, Result, RetryReply};

/// A function that is asked about one job and answers a word.
pub(crate) struct Control<T> {
    name: &'static str,
    sql: &'static str,
    read: fn(&str) -> Option<T>,
}

pub(crate) const CANCEL: Control<CancelReply> = Control {
    name: "cancel",
    sql: "SELECT {schema}.cancel($1)",
    read: |word| match word {
        "cancelled" => Some(CancelReply::Cancelled),
        "running" => Some(CancelReply::Running),
        "finished" => Some(CancelReply::Finished),
        "not_found" => Some(CancelReply::NotFound),
        _ => None,
    },
};

pub(crate) const RETRY: Control<RetryReply> = Control {
    name: "retry",
    sql: "SELECT {schema}.retry($1)",
    read: |word| match word {
        "retried" => Some(RetryReply::Retried),
        "pending" => Some(RetryReply::Pending),
        "completed" => Some(RetryReply::Completed),
        "key_taken" => Some(RetryReply::KeyTaken),
        "not_found" => Some(RetryReply::NotFound),
        _ => None,
    },
};

impl<T> Control<T> {
    /// One short transaction per job: each holds its lane's lock, so a batch in one would stall claims.
    pub(crate) async fn each(&self, db: &Database, ids: &[JobId]) -> Result<Vec<T>> {
        let mut connection = db.client(self.name).await?;
        let mut replies = Vec::with_capacity(ids.len());
        for id in ids {
            connection.extend(Patience::Call);
            replies.push(self.one_on(db, &connection, *id).await?);
        }
        Ok(replies)
    }

    pub(crate) async fn one_on(&self, db: &Database, on: &impl Query, id: JobId) -> Result<T> {
        let row = on.query_one(&db.sql(self.sql), &[(&id.0, Type::INT8)], Effect::Repeatable).await?;
        let word: &str = row.get(0);
        (self.read)(word).ok_or_else(|| Error::new(ErrorKind::Internal, format!("unknown answer {word:?}")))
    }
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
