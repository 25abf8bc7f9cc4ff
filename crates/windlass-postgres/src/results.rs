use crate::completions::Completions;
use windlass_core::{CompletedJobs, Exception, PlacedException, SettleReply, Settled};

/// Completed jobs with results, as `settle_with_results` takes them.
pub(crate) struct Results<'a> {
    claims: Vec<CompletedJobs<'a>>,
    /// What else was excepted, with its place in the request.
    pub(crate) others: Vec<PlacedException<'a>>,
    /// The positions of the jobs of each range.
    pub(crate) positions: Vec<i64>,
    /// Rows of table `result`: the entry, from 1, whose jobs each is about.
    pub(crate) of: Vec<i32>,
    pub(crate) last: Vec<i64>,
    /// Arrays of ids, as text.
    pub(crate) jobs: Vec<String>,
    /// JSON arrays.
    pub(crate) results: Vec<String>,
}

impl<'a> Results<'a> {
    /// `None` where these exceptions have to be looked at one by one.
    pub(crate) fn of(exceptions: &'a [Exception]) -> Option<Self> {
        let (claims, others) = CompletedJobs::of(exceptions)?;
        let (mut of, mut last, mut jobs, mut results) = (vec![], vec![], vec![], vec![]);
        for (entry, claim) in (1..).zip(&claims) {
            for row in claim.rows() {
                of.push(entry);
                last.push(row.last());
                jobs.push(array(&row.jobs));
                results.push(row.results);
            }
        }
        let positions =
            claims.iter().flat_map(CompletedJobs::ranges_by_position).map(|range| range.2).collect();
        Some(Self { claims, others, positions, of, last, jobs, results })
    }

    /// Adds an entry for each claim. These have to be the first.
    pub(crate) fn add_entries(&self, completions: &mut Completions) {
        for claim in &self.claims {
            let count = i32::try_from(claim.jobs.len()).unwrap_or(i32::MAX);
            let entry = completions.add(claim.claim.into(), Some(count));
            for (low, high, _) in claim.ranges_by_position() {
                completions.add_range(entry, low, high);
            }
        }
    }

    /// The reply to the request, of the statuses of these entries, then of its completions, then of the other exceptions.
    pub(crate) fn reply(&self, mut statuses: Vec<Settled>, completions: usize) -> SettleReply {
        let others = statuses.split_off(self.claims.len() + completions);
        let completions = statuses.split_off(self.claims.len());
        let count = self.claims.iter().map(|claim| claim.jobs.len()).sum::<usize>() + self.others.len();
        let mut exceptions = vec![Settled::Refused; count];
        for (claim, status) in self.claims.iter().zip(statuses) {
            for (place, _) in &claim.jobs {
                exceptions[*place] = status;
            }
        }
        for ((place, _), status) in self.others.iter().zip(others) {
            exceptions[*place] = status;
        }
        SettleReply { completions, exceptions }
    }
}

/// PostgreSQL's text of an array of numbers.
fn array(ids: &[i64]) -> String {
    let mut text = String::with_capacity(ids.len() * 12);
    for id in ids {
        text.push(if text.is_empty() { '{' } else { ',' });
        text.push_str(&id.to_string());
    }
    text.push('}');
    text
}
