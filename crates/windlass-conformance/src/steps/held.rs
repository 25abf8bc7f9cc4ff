use windlass_core::{Claim, ClaimRef, ClaimedJob, Completion, Disposition, Exception, JobId, JobSet};

/// One claimed job with the claim it is of.
#[derive(Clone, Debug)]
pub struct Held {
    /// The claim.
    pub claim: ClaimRef,
    /// The priority of its lane.
    pub priority: i16,
    /// The job.
    pub job: ClaimedJob,
}

impl Held {
    /// Says that this job alone completed.
    pub fn completion(&self) -> Completion {
        Completion { claim: self.claim, jobs: JobSet::Ranges(vec![(self.job.id.0, self.job.id.0)]), count: 1 }
    }

    /// Says what else happened to this job.
    pub fn exception(&self, disposition: Disposition) -> Exception {
        Exception { claim: self.claim, job: self.job.id, position: self.job.position, disposition }
    }
}

/// The jobs of claims, in the order they were handed out.
pub fn held(claims: &[Claim]) -> Vec<Held> {
    let of_claim = |claim: &Claim| {
        let (reference, priority) = (claim.reference, claim.priority);
        let jobs = claim.jobs.clone().into_iter();
        jobs.map(move |job| Held { claim: reference, priority, job })
    };
    claims.iter().flat_map(of_claim).collect()
}

/// The ids of the jobs of claims, in the order they were handed out.
pub fn ids(claims: &[Claim]) -> Vec<JobId> {
    claims.iter().flat_map(|claim| claim.jobs.iter().map(|job| job.id)).collect()
}
