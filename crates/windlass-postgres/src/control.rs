use crate::{
    database::Database,
    error::{Effect, is_lock_failure},
    query::{Param, Query},
    turns::{Turns, is_held},
};
use tokio::time::Instant;
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

impl<T: Send + Sync + 'static> Control<T> {
    /// Some jobs in each transaction: it holds the locks of their lanes, so that many would stall claims. A job that somebody has in an open transaction keeps none of the others from
    /// being seen to; where the call fails, its error has the replies of those that were.
    pub(crate) async fn each(&self, db: &Database, ids: &[JobId], more: &[Param<'_>]) -> Result<Vec<T>> {
        let mut replies: Vec<Option<T>> = std::iter::repeat_with(|| None).take(ids.len()).collect();
        if !db.is_patient {
            return match self.once(db, ids, more, &mut replies).await {
                Err(error) => Err(error.with_replies(replies)),
                Ok(()) => Ok(replies.into_iter().flatten().collect()),
            };
        }
        let mut turns = Turns::new(db.pools.call_timeout());
        let mut failed = self.in_chunks(db, ids, more, &mut turns, &mut replies).await.err();
        loop {
            if let Some(error) = failed {
                return Err(error.with_replies(replies));
            }
            let Err(error) = self.one_by_one(db, ids, more, &mut turns, &mut replies).await else {
                return Ok(replies.into_iter().flatten().collect());
            };
            failed = turns.next(self.name, replies.iter().any(Option::is_some), error).await.err();
        }
    }

    /// Tries each once: some together, and where that fails one by one.
    async fn once(
        &self,
        db: &Database,
        ids: &[JobId],
        more: &[Param<'_>],
        replies: &mut [Option<T>],
    ) -> Result<()> {
        let (mut turns, mut held) = (Turns::once(), None);
        for (some, replies) in ids.chunks(TOGETHER).zip(replies.chunks_mut(TOGETHER)) {
            self.in_chunks(db, some, more, &mut turns, replies).await?;
            match self.one_by_one(db, some, more, &mut turns, replies).await {
                Err(error) if is_held(&error) => held = Some(error),
                ended => ended?,
            }
        }
        let Some(error) = held else { return Ok(()) };
        turns.next(self.name, replies.iter().any(Option::is_some), error).await
    }

    /// Sees to some at once, where nobody has one of these: those that are free are not to wait for one after another of those that are not.
    async fn in_chunks(
        &self,
        db: &Database,
        ids: &[JobId],
        more: &[Param<'_>],
        turns: &mut Turns,
        replies: &mut [Option<T>],
    ) -> Result<()> {
        let chunks = ids.chunks(TOGETHER).zip(replies.chunks_mut(TOGETHER));
        for (some, replies) in chunks.filter(|(some, _)| some.len() > 1) {
            let began = Instant::now();
            turns.had_last = self.together(db, some, more, turns.wait_together(), replies).await?;
            if !turns.had_last {
                turns.waited += began.elapsed();
            }
        }
        Ok(())
    }

    /// Sees to those that have no reply yet. Fails where one is left, and goes on to the others where somebody has it; who has no patience leaves those beside many that somebody has.
    async fn one_by_one(
        &self,
        db: &Database,
        ids: &[JobId],
        more: &[Param<'_>],
        turns: &mut Turns,
        replies: &mut [Option<T>],
    ) -> Result<()> {
        let mut left: Vec<_> = ids.iter().zip(replies).filter(|(_, reply)| reply.is_none()).collect();
        let many = left.len();
        let (mut ended, mut in_a_row, mut most) = (Ok(()), 0, turns.in_a_row());
        for next in 0..many {
            let is_last = in_a_row == most;
            if is_last {
                left.swap(next, many - 1);
            }
            let began = Instant::now();
            match self.one(db, *left[next].0, more, turns.wait(many)).await {
                Ok(word) => {
                    *left[next].1 = Some(word);
                    (in_a_row, most) = (0, if is_last { usize::MAX } else { most });
                }
                Err(error) => {
                    turns.waited += began.elapsed();
                    if !is_held(&error) {
                        return Err(error);
                    }
                    (ended, in_a_row) = (Err(error), in_a_row + 1);
                    if is_last {
                        break;
                    }
                }
            }
        }
        ended
    }

    /// These in one transaction; whether that went, as it does not where somebody has one of their lanes.
    async fn together(
        &self,
        db: &Database,
        some: &[JobId],
        more: &[Param<'_>],
        wait: &str,
        replies: &mut [Option<T>],
    ) -> Result<bool> {
        let connection = db.client(self.name).await?;
        match self.some_on(db, &connection, some, more, wait).await {
            Ok(words) => {
                replies.iter_mut().zip(words).for_each(|(reply, word)| *reply = Some(word));
                Ok(true)
            }
            // Two calls may wait for one another's lanes; each job by itself waits for one only. Definitions of an older program know no short_wait.
            Err(error) if is_lock_failure(&error) || !error.is_connection_loss() => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn one(&self, db: &Database, id: JobId, more: &[Param<'_>], wait: &str) -> Result<T> {
        let connection = db.client(self.name).await?;
        let sql = format!("{} {} FROM patience", patience(&format!("'{wait}'")), self.sql);
        let row =
            connection.query_one(&db.sql(&sql), &with((&id.0, Type::INT8), more), Effect::Repeatable).await?;
        self.read(&row)
    }

    async fn some_on(
        &self,
        db: &Database,
        on: &impl Query,
        ids: &[JobId],
        more: &[Param<'_>],
        wait: &str,
    ) -> Result<Vec<T>> {
        let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
        if self.name != "edit" && db.caches.act_on.known() != Some(false) {
            let sql =
                format!("{} SELECT {{schema}}.act_on('{}', $1) FROM patience", patience(wait), self.name);
            match on.query(&db.sql(&sql), &[(&ids, Type::INT8_ARRAY)], Effect::Repeatable).await {
                Err(error) if error.kind() == ErrorKind::SchemaMissing => db.caches.act_on.note(false),
                rows => return rows?.iter().map(|row| self.read(row)).collect(),
            }
        }
        // With locks of some lanes: who changes limits of keys waits for all of a queue's.
        let sql = format!(
            "{} {} FROM patience CROSS JOIN unnest($1) WITH ORDINALITY AS u(id, n) ORDER BY u.n",
            patience(wait),
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
