//! Fairness between the keys of what a worker has claimed ahead: a job of a key that has nothing ready goes before jobs that wait
//! behind others of their own key.
//!
//! The store hands out jobs in the turns of their keys, but what one claim brings stands behind what earlier ones brought, and of a long
//! backlog that is as much as ends while four claims take. Of start-time fair queueing (Goyal, Vin and Cheng 1996) this is the first step:
//! the first job of a key that is not there yet has the least start tag.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
};
use windlass_core::ClaimedJob;

/// Which keys the jobs of a claim have, and how many other jobs may still go before them.
///
/// Keys are known by their hashes: where two share one, the second does not go first, and nothing else happens.
#[derive(Debug)]
pub(crate) struct Keys {
    keys: HashSet<u64>,
    passable: usize,
}

impl Keys {
    /// `None` where no job has a key.
    pub(crate) fn of(jobs: &[ClaimedJob]) -> Option<Self> {
        jobs.iter().any(has_key).then(|| {
            let keys: HashSet<u64> = jobs.iter().map(hash).collect();
            // The first job of each key goes in its turn.
            Self { passable: jobs.len() - keys.len(), keys }
        })
    }

    fn has(&self, job: &ClaimedJob) -> bool {
        self.keys.contains(&hash(job))
    }

    /// Lets so many jobs go before these, unless that makes them wait for too many.
    pub(crate) fn let_pass(&mut self, jobs: usize) -> bool {
        let passes = jobs <= self.passable;
        if passes {
            self.passable -= jobs;
        }
        passes
    }
}

/// Puts those jobs first whose keys none of these has, and says how many.
pub(crate) fn quiet_first(ready: &[&Keys], jobs: &mut Vec<ClaimedJob>) -> usize {
    let is_quiet = |job: &ClaimedJob| !ready.iter().any(|keys| keys.has(job));
    if ready.is_empty() || !jobs.iter().any(is_quiet) {
        return 0;
    }
    let (quiet, others): (Vec<_>, Vec<_>) = std::mem::take(jobs).into_iter().partition(is_quiet);
    let first = quiet.len();
    *jobs = quiet;
    jobs.extend(others);
    first
}

fn key(job: &ClaimedJob) -> Option<&str> {
    job.attributes.as_ref().and_then(|attributes| attributes.key.as_deref())
}

pub(crate) fn has_key(job: &ClaimedJob) -> bool {
    key(job).is_some()
}

fn hash(job: &ClaimedJob) -> u64 {
    let mut hasher = DefaultHasher::new();
    key(job).hash(&mut hasher);
    hasher.finish()
}
