//! How the rows of a batch are written.

use crate::{
    connection::Connection,
    copy::copy_rows,
    enqueue::attempts,
    error::{Effect, store_error},
    store::PostgresStore,
};
use jiff::Timestamp;
use tokio_postgres::{
    Statement, Transaction,
    types::{ToSql, Type},
};
use windlass_core::{Error, ErrorKind, JobId, NewJob, Result, When};

/// From how many jobs on COPY beats single inserts: it needs one round trip for the ids and two of its own.
pub(crate) const COPY_FROM: usize = 8;

/// How many rows are written at once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// Two round trips, the cheaper for each row.
    Copy,
    /// One statement with arrays, one round trip.
    Insert,
}

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

/// One row to write: the job of this index in its batch.
pub(crate) struct Place {
    pub(crate) index: usize,
    /// When it becomes available, where it has to wait.
    pub(crate) due: Option<Timestamp>,
}

impl PostgresStore {
    /// The statements that COPY needs, unless it is not to be used.
    pub(crate) async fn prepare_copy(
        &self,
        connection: &Connection,
        segment: usize,
        jobs: &[NewJob],
    ) -> Result<Option<Prepared>> {
        if jobs.len() < COPY_FROM || self.connections.is_pooled_by_transaction() {
            return Ok(None);
        }
        let fail = |cause| store_error(cause, Effect::Repeatable);
        let take = connection.object.prepare_typed_cached(&self.texts.take, &[Type::INT8]).await;
        let copy = connection.object.prepare_cached(&self.texts.copy[segment]).await;
        Ok(Some(Prepared { take: take.map_err(fail)?, copy: copy.map_err(fail)? }))
    }

    /// Stores jobs under ids that were taken for them.
    pub(crate) async fn store_under(
        &self,
        client: &Transaction<'_>,
        batch: &Batch<'_>,
        ids: &[JobId],
        now: Timestamp,
        by: By,
    ) -> Result<()> {
        let mut ready = Vec::with_capacity(batch.jobs.len());
        let mut later = Vec::new();
        for (index, job) in batch.jobs.iter().enumerate() {
            let due = due(job, now)?;
            if due.is_some() { &mut later } else { &mut ready }.push(Place { index, due });
        }
        for (places, later) in [(ready, false), (later, true)] {
            match by {
                _ if places.is_empty() => {}
                By::Copy => self.copy(client, batch, ids, &places, later).await?,
                By::Insert => self.insert(client, batch, ids, &places, later).await?,
            }
        }
        Ok(())
    }

    /// Writes immediate jobs (`later` false: into the segment) or waiting ones (into `held`).
    async fn copy(
        &self,
        client: &Transaction<'_>,
        batch: &Batch<'_>,
        ids: &[JobId],
        places: &[Place],
        later: bool,
    ) -> Result<()> {
        let fail = |cause| store_error(cause, Effect::Repeatable);
        let sink = match &batch.prepared {
            _ if later => client.copy_in(&self.texts.copy_held).await,
            Some(prepared) => client.copy_in(&prepared.copy).await,
            None => client.copy_in(&self.texts.copy[batch.segment]).await,
        };
        copy_rows(sink.map_err(fail)?, batch, ids, places).await.map_err(fail)
    }

    /// As [`Self::copy`], in one statement with arrays.
    async fn insert(
        &self,
        client: &Transaction<'_>,
        batch: &Batch<'_>,
        ids: &[JobId],
        places: &[Place],
        later: bool,
    ) -> Result<()> {
        let jobs = || places.iter().map(|place| &batch.jobs[place.index]);
        let ids: Vec<i64> = places.iter().map(|place| ids[place.index].0).collect();
        let lanes: Vec<i32> = places.iter().map(|place| batch.lanes[place.index]).collect();
        let most: Vec<i16> = jobs().map(attempts).collect();
        let kinds: Vec<&str> = jobs().map(NewJob::kind).collect();
        let args: Vec<&str> = jobs().map(|job| job.args().as_str()).collect();
        let due: Vec<Timestamp> = places.iter().filter_map(|place| place.due).collect();
        let mut params: Vec<(&(dyn ToSql + Sync), Type)> = vec![
            (&ids, Type::INT8_ARRAY),
            (&lanes, Type::INT4_ARRAY),
            (&most, Type::INT2_ARRAY),
            (&kinds, Type::TEXT_ARRAY),
            (&args, Type::TEXT_ARRAY),
        ];
        let text = match later {
            false => &self.texts.unnest[batch.segment],
            true => {
                params.push((&due, Type::TIMESTAMPTZ_ARRAY));
                &self.texts.unnest_held
            }
        };
        client.query_typed(text, &params).await.map_err(|cause| store_error(cause, Effect::Repeatable))?;
        Ok(())
    }
}

/// When a job becomes available, if not at once. Delays count from the database's `now`.
fn due(job: &NewJob, now: Timestamp) -> Result<Option<Timestamp>> {
    let at = match job.when() {
        When::At(at) => at,
        When::After(delay) => now.checked_add(delay).map_err(|cause| {
            Error::new(ErrorKind::InvalidOption, format!("delay {delay:?} is too long: {cause}"))
        })?,
        _ => return Ok(None),
    };
    Ok((at > now).then_some(at))
}
