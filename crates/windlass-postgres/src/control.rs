use crate::{
    database::Database,
    error::{Effect, is_lock_failure},
    query::{Param, Query},
    turns::by_turns,
};
use tokio_postgres::{Row, types::Type};
use windlass_core::{CancelReply, Error, ErrorKind, JobId, Limits, Result, RetryReply};

/// How many jobs are seen to in one transaction.
const TOGETHER: usize = 64;

/// A function that is asked about one job, which is `$1`, and answers a word.
pub(crate) struct Control<T> {
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
    pub(crate) read: fn(&str) -> Option<T>,
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
    /// Some jobs in each transaction: it holds the locks of their lanes, so that many would stall claims.
    pub(crate) async fn each(&self, db: &Database, ids: &[JobId], more: &[Param<'_>]) -> Result<Vec<T>> {
        let mut replies = Vec::with_capacity(ids.len());
        for some in ids.chunks(TOGETHER) {
            if let [id] = some {
                replies.push(self.one(db, *id, more).await?);
                continue;
            }
            let connection = db.client(self.name).await?;
            let done = self.some_on(db, &connection, some, more).await;
            drop(connection);
            match done {
                Ok(some) => replies.extend(some),
                // Two calls may wait for one another's lanes; each job by itself waits for one only. Definitions of an older program know no short_wait.
                Err(error) if is_lock_failure(&error) || !error.is_connection_loss() => {
                    for id in some {
                        replies.push(self.one(db, *id, more).await?);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(replies)
    }

    /// One job by itself waits for its lane as long as a call may.
    async fn one(&self, db: &Database, id: JobId, more: &[Param<'_>]) -> Result<T> {
        by_turns(self.name, db.pools.call_timeout(), |turn| async move {
            let connection = db.client(self.name).await?;
            let sql = format!("{} {} FROM patience", patience(&format!("'{turn}'")), self.sql);
            let row = connection
                .query_one(&db.sql(&sql), &with((&id.0, Type::INT8), more), Effect::Repeatable)
                .await?;
            self.read(&row)
        })
        .await
    }

    async fn some_on(
        &self,
        db: &Database,
        on: &impl Query,
        ids: &[JobId],
        more: &[Param<'_>],
    ) -> Result<Vec<T>> {
        let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
        // With locks of some lanes: who changes limits of keys waits for all of a queue's.
        let sql = format!(
            "{} {} FROM patience CROSS JOIN unnest($1) WITH ORDINALITY AS u(id, n) ORDER BY u.n",
            patience("{schema}.short_wait()"),
            self.sql.replace("($1", "(u.id")
        );
        let rows = on.query(&db.sql(&sql), &with((&ids, Type::INT8_ARRAY), more), Effect::Repeatable).await?;
        rows.iter().map(|row| self.read(row)).collect()
    }

    fn read(&self, row: &Row) -> Result<T> {
        let word: &str = row.get(0);
        (self.read)(word).ok_or_else(|| Error::new(ErrorKind::Internal, format!("unknown answer {word:?}")))
    }

    pub(crate) async fn one_on(
        &self,
        db: &Database,
        on: &impl Query,
        id: JobId,
        more: &[Param<'_>],
    ) -> Result<T> {
        let row =
            on.query_one(&db.sql(self.sql), &with((&id.0, Type::INT8), more), Effect::Repeatable).await?;
        self.read(&row)
    }
}

/// What a statement begins with that waits no longer than that for a lock.
fn patience(wait: &str) -> String {
    format!("WITH patience AS MATERIALIZED (SELECT set_config('lock_timeout', {wait}, true))")
}

fn with<'a>(jobs: Param<'a>, more: &[Param<'a>]) -> Vec<Param<'a>> {
    std::iter::once(jobs).chain(more.iter().cloned()).collect()
}

pub(crate) async fn pause(db: &Database, queue: &str, paused: bool) -> Result<()> {
    let sql = if paused { "SELECT {schema}.pause($1)" } else { "SELECT {schema}.resume($1)" };
    let sql = &db.sql(sql);
    let row = db
        .by_turns("pause", |on| async move {
            on.query_one(sql, &[(&queue, Type::TEXT)], Effect::Repeatable).await
        })
        .await?;
    if row.get(0) { Ok(()) } else { Err(Limits::unknown_queue(queue)) }
}
