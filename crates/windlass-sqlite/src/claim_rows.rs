//! The jobs of a claim, as they are read from the log.

use crate::{
    clock::{Micros, timestamp},
    error::Outcome,
    position,
    tx::Tx,
};
use bytes::Bytes;
use rusqlite::{Row, Rows, params, types::ValueRef};
use std::{collections::HashMap, sync::Arc};
use windlass_core::{Attributes, ClaimedJob, JobId};

/// Jobs that are where they were first appended and have nothing of their own are read by five columns instead of nine: 2,570 instead of
/// 3,040 instructions for each (callgrind, a drain). The second column is NULL in the row of any other.
const PLAIN: &str =
    "SELECT pos, iif(id IS NULL AND attributes IS NULL, max_attempts, NULL), kind, args, enqueued_at FROM job
    WHERE pos BETWEEN ?1 AND ?2 ORDER BY pos LIMIT ?3";
const ANY: &str =
    "SELECT pos, max_attempts, kind, args, enqueued_at, id, attempt, crash_count, attributes FROM job
    WHERE pos BETWEEN ?1 AND ?2 ORDER BY pos LIMIT ?3";

/// Jobs that were read.
pub(crate) struct Batch {
    pub(crate) jobs: Vec<ClaimedJob>,
    pub(crate) bytes: usize,
    /// There are more within the limit, but not within the bytes.
    pub(crate) cut: bool,
}

/// Reads the first `limit` jobs of a range into one shared buffer, at least one and `most` bytes of args. From the first that is not plain on, all are read as any.
pub(crate) fn read(tx: &Tx<'_>, (from, to): (i64, i64), limit: u32, most: usize) -> Outcome<Batch> {
    let mut reading = Reading { most, now: tx.now, ..Reading::default() };
    reading.jobs.reserve(limit as usize);
    let mut plain = tx.conn.prepare_cached(PLAIN)?;
    if let Some(next) = reading.take(plain.query(params![from, to, limit])?, plain_job)? {
        let left = limit - reading.jobs.len() as u32;
        reading.take(tx.conn.prepare_cached(ANY)?.query(params![next, to, left])?, any_job)?;
    }
    Ok(reading.end())
}

/// A batch while it is read.
#[derive(Default)]
struct Reading {
    /// The most bytes of args.
    most: usize,
    now: Micros,
    jobs: Vec<ClaimedJob>,
    args: Vec<u8>,
    /// Where the args of each job end.
    ends: Vec<usize>,
    kinds: Kinds,
    cut: bool,
}

impl Reading {
    /// Takes rows as long as they are what `job` reads, and fit. Returns the position of one that is something else.
    fn take(
        &mut self,
        mut rows: Rows<'_>,
        job: impl Fn(&Row<'_>, &mut Kinds, Micros) -> Outcome<Option<ClaimedJob>>,
    ) -> Outcome<Option<i64>> {
        while let Some(row) = rows.next()? {
            let args = row.get_ref(3)?.as_bytes().map_err(rusqlite::Error::from)?;
            self.cut = !self.jobs.is_empty() && self.args.len() + args.len() > self.most;
            if self.cut {
                break;
            }
            let Some(job) = job(row, &mut self.kinds, self.now)? else { return Ok(Some(row.get(0)?)) };
            self.args.extend_from_slice(args);
            self.ends.push(self.args.len());
            self.jobs.push(job);
        }
        Ok(None)
    }

    fn end(self) -> Batch {
        let Self { mut jobs, args, ends, cut, .. } = self;
        let (bytes, buffer, mut start) = (args.len(), Bytes::from(args), 0);
        for (job, end) in jobs.iter_mut().zip(ends) {
            job.args = buffer.slice(start..end);
            start = end;
        }
        Batch { jobs, bytes, cut }
    }
}

/// A row of [`PLAIN`], if its job is.
fn plain_job(row: &Row<'_>, kinds: &mut Kinds, _: Micros) -> Outcome<Option<ClaimedJob>> {
    let Some(max_attempts) = row.get(1)? else { return Ok(None) };
    let position: i64 = row.get(0)?;
    Ok(Some(ClaimedJob {
        id: JobId(position::sequence_of(position)),
        position,
        kind: kinds.share(row.get_ref(2)?)?,
        args: Bytes::new(),
        attempt: 1,
        max_attempts,
        crash_count: 0,
        enqueued_at: timestamp(row.get(4)?),
        never_put_off: true,
        attributes: None,
        expires_in: None,
    }))
}

/// A row of [`ANY`]: the same, and what only some have.
fn any_job(row: &Row<'_>, kinds: &mut Kinds, now: Micros) -> Outcome<Option<ClaimedJob>> {
    let Some(plain) = plain_job(row, kinds, now)? else { return Ok(None) };
    let attributes = match row.get_ref(8)? {
        ValueRef::Null => None,
        text => Attributes::from_store(text.as_str().map_err(rusqlite::Error::from)?)?,
    };
    let moved: Option<i64> = row.get(5)?;
    Ok(Some(ClaimedJob {
        id: moved.map_or(plain.id, JobId),
        attempt: row.get::<_, u16>(6)?.saturating_add(1),
        crash_count: row.get(7)?,
        never_put_off: moved.is_none(),
        expires_in: attributes.as_ref().and_then(|attributes| attributes.expires_in(timestamp(now))),
        attributes,
        ..plain
    }))
}

/// The kinds of a batch, each allocated once. The last one is asked first.
#[derive(Default)]
struct Kinds {
    last: Option<Arc<str>>,
    all: HashMap<Box<str>, Arc<str>>,
}

impl Kinds {
    fn share(&mut self, kind: ValueRef<'_>) -> Outcome<Arc<str>> {
        if let (Some(last), Ok(kind)) = (&self.last, kind.as_bytes())
            && last.as_bytes() == kind
        {
            return Ok(Arc::clone(last));
        }
        let kind = kind.as_str().map_err(rusqlite::Error::from)?;
        let shared = match self.all.get(kind) {
            Some(shared) => Arc::clone(shared),
            None => Arc::clone(self.all.entry(kind.into()).or_insert_with(|| kind.into())),
        };
        self.last = Some(Arc::clone(&shared));
        Ok(shared)
    }
}
