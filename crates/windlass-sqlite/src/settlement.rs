//! A settlement as the writer takes it. It is handed to another thread, so that it owns what it names: results by the row, since a copy of each was a
//! tenth of what a job with a small result cost.

use crate::error::{Fault, Outcome};
use serde_json::value::RawValue;
use windlass_core::{
    Args, ClaimRef, CompletedJobs, Completion, Disposition, ErrorKind, Exception, JobId, PlacedException,
    ResultRow, SettleRequest, WorkerId,
};

/// The most exceptions of one transaction: each is several rows that change, and others wait.
const EXCEPTIONS: usize = 1_000;

/// What one transaction settles. Places are those of exceptions in the request.
#[derive(Debug)]
pub(crate) struct Settlement {
    pub(crate) worker: WorkerId,
    /// Jobs that completed by themselves, by claim.
    pub(crate) completed: Vec<Completed>,
    /// What else was excepted.
    pub(crate) others: Vec<(usize, Exception)>,
    pub(crate) completions: Vec<Completion>,
}

/// Jobs of one claim that completed by themselves.
#[derive(Debug)]
pub(crate) struct Completed {
    pub(crate) claim: ClaimRef,
    /// The jobs by their ids, ascending.
    pub(crate) jobs: Vec<CompletedJob>,
    /// Their ids as inclusive ranges without gaps.
    pub(crate) ranges: Vec<(i64, i64)>,
    /// Their results, of those that have one.
    pub(crate) rows: Vec<ResultRow>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct CompletedJob {
    pub(crate) place: usize,
    pub(crate) job: JobId,
    pub(crate) position: i64,
}

impl Settlement {
    /// A request in parts. Who repeats it because one of them failed is told of those before that they are settled already. What completed stays
    /// together: that is a row for many.
    pub(crate) fn parts(request: &SettleRequest) -> Vec<Self> {
        let (claims, others) = CompletedJobs::of(&request.exceptions)
            .unwrap_or_else(|| (Vec::new(), request.exceptions.iter().enumerate().collect()));
        let part = |others: &[PlacedException<'_>]| Self {
            worker: request.worker,
            completed: Vec::new(),
            others: others.iter().map(|(place, exception)| (*place, (*exception).clone())).collect(),
            completions: Vec::new(),
        };
        let mut parts: Vec<_> = others.chunks(EXCEPTIONS).map(part).collect();
        if parts.is_empty() {
            parts.push(part(&[]));
        }
        // Exceptions come before completions: one of the rest of a claim means the rest of those, too.
        if let Some(last) = parts.last_mut() {
            last.completed = claims.iter().map(Completed::of).collect();
            last.completions.clone_from(&request.completions);
        }
        parts
    }
}

impl Completed {
    fn of(claim: &CompletedJobs<'_>) -> Self {
        let job = |(place, exception): &PlacedException<'_>| CompletedJob {
            place: *place,
            job: exception.job,
            position: exception.position,
        };
        Self {
            claim: claim.claim,
            jobs: claim.jobs.iter().map(job).collect(),
            ranges: claim.ranges().collect(),
            rows: claim.rows(),
        }
    }

    /// The same, each by itself with its place.
    pub(crate) fn one_by_one(&self) -> Outcome<Vec<(usize, Exception)>> {
        let damaged = |cause| {
            Fault::refused(ErrorKind::Internal, format!("results of a settlement are damaged: {cause}"))
        };
        let mut results = Vec::with_capacity(self.jobs.len());
        for row in &self.rows {
            let values: Vec<&RawValue> = serde_json::from_str(&row.results).map_err(damaged)?;
            results.extend(row.jobs.iter().copied().zip(values));
        }
        let mut results = results.into_iter().peekable();
        let exception = |job: &CompletedJob| {
            let result = results.next_if(|(id, _)| *id == job.job.0);
            let result = result.map(|(_, text)| Args::from_store(text.get())).transpose()?;
            let (claim, position) = (self.claim, job.position);
            let disposition = Disposition::Complete { result };
            Ok((job.place, Exception { claim, job: job.job, position, disposition }))
        };
        self.jobs.iter().map(exception).collect()
    }
}
