//! Many jobs that are stored within one transaction: how their rows are written.

use crate::{
    connection::Connection,
    copy::copy_rows,
    database::Database,
    error::{Effect, store_error},
    new_row::{NewRow, attempts},
};
use jiff::Timestamp;
use tokio_postgres::{
    Client, Statement,
    types::{ToSql, Type},
};
use windlass_core::{JobId, NewJob, Result};

/// From how many jobs on COPY beats an INSERT with arrays where ids are taken first: it needs a round trip more.
pub(crate) const COPY_FROM: usize = 8;

/// The most queues of which a statement says that its rows are theirs.
const MOST_QUEUES: usize = 8;

/// Checked jobs, their lanes, and the segment that they go to.
pub(crate) struct Batch<'a> {
    pub(crate) segment: usize,
    pub(crate) lanes: Vec<i32>,
    pub(crate) jobs: &'a [NewJob],
    /// The statements that COPY needs, where this connection knows them.
    pub(crate) prepared: Option<Prepared>,
}

/// Prepared once for each connection: preparing them anew costs a batch of 1,000 a twentieth of its time.
pub(crate) struct Prepared {
    pub(crate) take: Statement,
    copy: Statement,
}

impl Prepared {
    /// `None` where COPY is not to be used.
    pub(crate) async fn on(
        db: &Database,
        connection: &Connection,
        segment: usize,
        jobs: &[NewJob],
    ) -> Result<Option<Self>> {
        if jobs.len() < COPY_FROM || db.is_pooled_by_transaction() {
            return Ok(None);
        }
        let fail = |cause| store_error(cause, Effect::Repeatable);
        let take = connection.object.prepare_typed_cached(&db.texts.take, &[Type::INT8, Type::TEXT]).await;
        let copy = connection.object.prepare_cached(&db.texts.copy[segment]).await;
        Ok(Some(Self { take: take.map_err(fail)?, copy: copy.map_err(fail)? }))
    }
}

impl Batch<'_> {
    /// Stores the jobs under ids that were taken for them.
    pub(crate) async fn store_under(
        &self,
        db: &Database,
        client: &Client,
        ids: &[JobId],
        now: Timestamp,
    ) -> Result<()> {
        // COPY needs a named statement, which a transaction-mode pooler may mix up.
        let by_copy = self.jobs.len() >= COPY_FROM && !db.is_pooled_by_transaction();
        let mut ready = Vec::with_capacity(self.jobs.len());
        let mut later = Vec::new();
        for ((job, &lane), &id) in self.jobs.iter().zip(&self.lanes).zip(ids) {
            let row = NewRow::new(id, lane, job, now)?;
            if row.due.is_some() { &mut later } else { &mut ready }.push(row);
        }
        mark_lowest(&mut ready);
        for rows in [ready, later] {
            match by_copy {
                _ if rows.is_empty() => {}
                true => self.copy(db, client, &rows).await?,
                false => self.insert(db, client, &rows).await?,
            }
        }
        Ok(())
    }

    /// Writes rows that are available at once into the segment, or rows that have to wait into `waiting`.
    async fn copy(&self, db: &Database, client: &Client, rows: &[NewRow<'_>]) -> Result<()> {
        let fail = |cause| store_error(cause, Effect::Repeatable);
        let attributed = wait(rows) || rows.iter().any(|row| !row.attributes.is_empty());
        let sink = match &self.prepared {
            _ if wait(rows) => client.copy_in(&db.texts.copy_waiting).await,
            _ if attributed => client.copy_in(&db.texts.copy_attributed[self.segment]).await,
            Some(prepared) => client.copy_in(&prepared.copy).await,
            None => client.copy_in(&db.texts.copy[self.segment]).await,
        };
        copy_rows(sink.map_err(fail)?, rows, attributed).await.map_err(fail)
    }

    /// As [`Self::copy`], in one statement with arrays.
    async fn insert(&self, db: &Database, client: &Client, rows: &[NewRow<'_>]) -> Result<()> {
        let ids: Vec<i64> = rows.iter().map(|row| row.id.0).collect();
        let lanes: Vec<i32> = rows.iter().map(|row| row.lane).collect();
        let most: Vec<i16> = rows.iter().map(|row| attempts(row.job)).collect();
        let kinds: Vec<&str> = rows.iter().map(|row| row.job.kind()).collect();
        let args: Vec<&str> = rows.iter().map(|row| row.job.args().as_str()).collect();
        let attributes: Vec<&str> = rows.iter().map(|row| &*row.attributes).collect();
        let due: Vec<Timestamp> = rows.iter().filter_map(|row| row.due).collect();
        let mut params: Vec<(&(dyn ToSql + Sync), Type)> = vec![
            (&ids, Type::INT8_ARRAY),
            (&lanes, Type::INT4_ARRAY),
            (&most, Type::INT2_ARRAY),
            (&kinds, Type::TEXT_ARRAY),
            (&args, Type::TEXT_ARRAY),
            (&attributes, Type::TEXT_ARRAY),
        ];
        let mut text = &db.texts.unnest[self.segment];
        if wait(rows) {
            params.push((&due, Type::TIMESTAMPTZ_ARRAY));
            text = &db.texts.unnest_waiting;
        }
        client.query_typed(text, &params).await.map_err(|cause| store_error(cause, Effect::Repeatable))?;
        Ok(())
    }
}

/// The rows of a block of ids that are in one lane are found by the lowest of them, which has an entry in the log's index of ids. The
/// first of a block always has one; others are marked for it. See `log_rows` in sql/functions/15_find.sql.
fn mark_lowest(rows: &mut [NewRow<'_>]) {
    let (mut block, mut lanes) = (None, Vec::new());
    for row in rows {
        let first = (row.id.0 - 1) & !15;
        if block != Some(first) {
            (block, lanes) = (Some(first), Vec::new());
        }
        if !lanes.contains(&row.lane) {
            lanes.push(row.lane);
            if row.id.0 != first + 1 {
                row.attributes =
                    format!(" {}", if row.attributes.is_empty() { "{}" } else { &row.attributes });
            }
        }
    }
}

/// The queues of these jobs, as the trigger that wakes workers wants them: with commas between; empty, which
/// means any, where there are many.
pub(crate) fn queues_of<'a>(jobs: impl IntoIterator<Item = &'a NewJob>) -> String {
    let mut queues: Vec<&str> = Vec::new();
    for job in jobs {
        if !queues.contains(&job.queue()) {
            if queues.len() == MOST_QUEUES {
                return String::new();
            }
            queues.push(job.queue());
        }
    }
    queues.join(",")
}

/// Whether these rows have to wait: all of them, or none.
fn wait(rows: &[NewRow<'_>]) -> bool {
    rows.first().is_some_and(|row| row.due.is_some())
}
