use crate::{
    database::Database,
    error::Effect,
    open_claims::OpenClaims,
    query::Query,
    row::{JsonText, Xid},
};
use bytes::{Bytes, BytesMut};
use jiff::Timestamp;
use std::{sync::Arc, time::Duration};
use tokio_postgres::{Row, types::Type};
use windlass_core::{
    Attributes, Claim, ClaimRef, ClaimRequest, Claimed, ClaimedJob, Error, ErrorKind, JobId, QueueDemand,
    Result,
};

/// What `claim` leaves out of its answer: the default of a new job.
const USUAL_MAX_ATTEMPTS: i16 = 20;
/// The lane of a header that says when the rate of a key allows more.
const RATE: i64 = i32::MIN as i64;

/// What a [`ClaimRef`] of this store says: the lane and the token in its first number, `seq` in its second.
#[derive(Clone, Copy)]
pub(crate) struct Reference {
    pub(crate) lane: i32,
    pub(crate) seq: i64,
    /// Random: tells a claim from one that a crash of the server forgot.
    pub(crate) token: i32,
}

impl From<Reference> for ClaimRef {
    fn from(Reference { lane, seq, token }: Reference) -> Self {
        Self(u64::from(lane.cast_unsigned()) << 32 | u64::from(token.cast_unsigned()), seq.cast_unsigned())
    }
}

impl From<ClaimRef> for Reference {
    fn from(ClaimRef(high, low): ClaimRef) -> Self {
        Self {
            lane: ((high >> 32) as u32).cast_signed(),
            seq: low.cast_signed(),
            token: (high as u32).cast_signed(),
        }
    }
}

/// Hands out jobs to a worker.
pub(crate) async fn claim(db: &Database, request: &ClaimRequest) -> Result<Claimed> {
    if demands(request).next().is_none() {
        return Ok(Claimed::default());
    }
    let connection = db.claims().await?;
    let call = db.caches.open_claims(request.worker, OpenClaims::claiming);
    let answer = claim_on(db, &connection, request, i64::try_from(call).unwrap_or(i64::MAX)).await;
    drop(connection);
    let claimed = match answer {
        Ok(claimed) => claimed,
        Err(error) => {
            // Any other error means that the transaction rolled back. `Internal`: what it answered cannot be read.
            if !error.is_ambiguous() && error.kind() != ErrorKind::Internal {
                db.caches.open_claims(request.worker, |open| open.claimed(call, &[]));
            }
            return Err(error);
        }
    };
    db.caches.open_claims(request.worker, |open| open.claimed(call, &claimed.claims));
    Ok(claimed)
}

/// Asks for jobs; `call` numbers the worker's calls. Rows are read as they come, while the server sends the others: a whole
/// answer of 5,000 jobs at once took 0.75 ms in which it had nothing to do, a twelfth of a claim.
pub(crate) async fn claim_on(
    db: &Database,
    on: &impl Query,
    request: &ClaimRequest,
    call: i64,
) -> Result<Claimed> {
    let (mut queues, mut limits, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    for demand in demands(request) {
        queues.push(&*demand.queue);
        limits.push(i32::try_from(demand.limit).unwrap_or(i32::MAX));
        bytes.push(i64::try_from(demand.max_bytes).unwrap_or(i64::MAX));
    }
    let params = [
        (&request.worker.0 as _, Type::INT4),
        (&queues as _, Type::TEXT_ARRAY),
        (&limits as _, Type::INT4_ARRAY),
        (&bytes as _, Type::INT8_ARRAY),
        (&call as _, Type::INT8),
    ];
    let mut answer = Answer::to(request);
    on.each(&db.texts.claim, &params, Effect::Write, &mut |row| answer.read(&row)).await?;
    Ok(answer.claimed())
}

fn demands(request: &ClaimRequest) -> impl Iterator<Item = &QueueDemand> {
    request.queues.iter().filter(|demand| demand.limit > 0)
}

/// The answer of `claim`: header rows, which say when their claim was made, each followed by its jobs. A header of lane 0 is of no claim: it
/// says that there is more, and whether it is of no use to ask soon; one of lane -1 names a queue with limits of which the worker has no share; one of [`RATE`] says in how many milliseconds the
/// rate of a key allows more.
struct Answer<'a> {
    wanted: Vec<&'a Arc<str>>,
    /// Of jobs, in all.
    most: usize,
    claimed: Claimed,
    now: Option<Timestamp>,
    // One buffer for all args of the answer, and one Arc per kind: no allocation per job.
    sizes: Vec<usize>,
    buffer: BytesMut,
    kind: Arc<str>,
}

impl<'a> Answer<'a> {
    fn to(request: &'a ClaimRequest) -> Self {
        let most = demands(request).map(|demand| demand.limit as usize).sum();
        Self {
            wanted: demands(request).map(|demand| &demand.queue).collect(),
            most,
            claimed: Claimed::default(),
            now: None,
            sizes: Vec::new(), // an empty answer needs none
            buffer: BytesMut::new(),
            kind: Arc::from(""),
        }
    }

    fn read(&mut self, row: &Row) -> Result<()> {
        match row.try_get::<_, Option<Vec<i64>>>(0).map_err(bad)? {
            Some(head) => self.read_header(&head, row),
            None => self.read_job(row),
        }
    }

    fn read_header(&mut self, head: &[i64], row: &Row) -> Result<()> {
        match head.first() {
            Some(0) => {
                // Of several, as of queues with keys, which have their own, each says it.
                let is_blocked = head.get(1) == Some(&1);
                self.claimed.blocked = is_blocked && (self.claimed.blocked || !self.claimed.contended);
                self.claimed.contended = true;
            }
            Some(-1) => self.claimed.limited.push(queue_of(head, &self.wanted)?),
            Some(&RATE) => {
                let due = head.get(1).map(|ms| Duration::from_millis(ms.unsigned_abs()));
                self.claimed.next_due = self.claimed.next_due.into_iter().chain(due).min();
            }
            _ => {
                self.now = row.try_get::<_, Option<Timestamp>>(6).map_err(bad)?;
                let claim = header(head, &self.wanted, self.most)?;
                self.sizes.reserve(claim.jobs.capacity());
                self.claimed.claims.push(Claim { claimed_at: self.now, ..claim });
            }
        }
        Ok(())
    }

    fn read_job(&mut self, row: &Row) -> Result<()> {
        let kind: &str = row.try_get(7).map_err(bad)?;
        if *kind != *self.kind {
            self.kind = Arc::from(kind);
        }
        let args: JsonText<'_> = row.try_get(8).map_err(bad)?;
        self.buffer.extend_from_slice(args.0);
        self.sizes.push(args.0.len());
        let number = |column| row.try_get::<_, Option<i16>>(column).map_err(bad);
        let used = number(3)?;
        let attributes = Attributes::from_store(row.try_get(9).map_err(bad)?)?;
        let expires_in = attributes.as_ref().and_then(|attributes| expires_in(attributes, self.now));
        let job = ClaimedJob {
            position: row.try_get::<_, Xid>(1).map_err(bad)?.0,
            id: JobId(row.try_get(2).map_err(bad)?),
            attempt: u16::try_from(used.unwrap_or(0)).unwrap_or(0).saturating_add(1),
            max_attempts: u16::try_from(number(4)?.unwrap_or(USUAL_MAX_ATTEMPTS)).unwrap_or(1),
            crash_count: u16::try_from(number(5)?.unwrap_or(0)).unwrap_or(0),
            enqueued_at: row.try_get(6).map_err(bad)?,
            never_put_off: used.is_none(),
            kind: Arc::clone(&self.kind),
            args: Bytes::new(),
            attributes,
            expires_in,
        };
        let claim = self.claimed.claims.last_mut();
        claim
            .ok_or_else(|| Error::new(ErrorKind::Internal, "a claimed job came without its claim"))?
            .jobs
            .push(job);
        Ok(())
    }

    fn claimed(mut self) -> Claimed {
        let mut buffer = self.buffer.freeze();
        let jobs = self.claimed.claims.iter_mut().flat_map(|claim| &mut claim.jobs);
        for (job, size) in jobs.zip(self.sizes) {
            job.args = buffer.split_to(size);
        }
        self.claimed.claims.retain(|claim| !claim.jobs.is_empty());
        self.claimed
    }
}

fn bad(cause: tokio_postgres::Error) -> Error {
    Error::new(ErrorKind::Internal, format!("cannot read a claim: {cause}")).with_source(cause)
}

/// How long a job may still wait, when it was `now` as it was handed out. Functions of an older program do not say.
fn expires_in(attributes: &Attributes, now: Option<Timestamp>) -> Option<Duration> {
    if attributes.expires_at.is_some() && now.is_none() {
        tracing::warn!(
            "jobs that expire are run late, because the schema is too old; run `windlass migrate`"
        );
    }
    attributes.expires_in(now?)
}

/// The queue that a header names.
fn queue_of(head: &[i64], wanted: &[&Arc<str>]) -> Result<Arc<str>> {
    let number = head.get(4).copied().unwrap_or(0);
    let queue = usize::try_from(number - 1).ok().and_then(|index| wanted.get(index)).ok_or_else(|| {
        let message = format!("a claim names queue number {number}, which was not asked for");
        Error::new(ErrorKind::Internal, message)
    })?;
    Ok(Arc::clone(queue))
}

fn header(head: &[i64], wanted: &[&Arc<str>], most: usize) -> Result<Claim> {
    let &[lane, seq, token, job_count, _, priority] = head else {
        return Err(Error::new(ErrorKind::Internal, "a claim's header has an unknown shape"));
    };
    let narrow = |value: i64| i32::try_from(value).unwrap_or(0);
    Ok(Claim {
        reference: Reference { lane: narrow(lane), seq, token: narrow(token) }.into(),
        queue: queue_of(head, wanted)?,
        priority: i16::try_from(priority).unwrap_or(0),
        claimed_at: None,
        jobs: Vec::with_capacity(usize::try_from(job_count).unwrap_or(0).min(most)),
    })
}
