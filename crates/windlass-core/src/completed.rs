use crate::{Args, ClaimRef, Disposition, Exception};

/// A row takes no further result when it has so many, or so many bytes: to read one, the row is read as a whole.
const MOST_RESULTS: usize = 1_000;
const MOST_BYTES: usize = 64 << 10;

/// An exception with its place in the request.
pub type PlacedException<'a> = (usize, &'a Exception);

/// Jobs of one claim that completed by themselves, of one request. For stores that keep results by the batch.
#[derive(Debug)]
pub struct CompletedJobs<'a> {
    /// The claim.
    pub claim: ClaimRef,
    /// The jobs by their ids, ascending.
    pub jobs: Vec<PlacedException<'a>>,
}

/// Results of some jobs of a claim, at most 1,000 and 64 KiB, or a single larger one.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ResultRow {
    /// The jobs' ids, ascending; never empty.
    pub jobs: Vec<i64>,
    /// A JSON array with an element for each.
    pub results: String,
}

impl<'a> CompletedJobs<'a> {
    /// Those of all claims of a request, and what else was excepted, in the order of their places. `None` where no job
    /// completed, or one is named twice.
    ///
    /// ```
    /// use windlass_core::{Args, ClaimRef, CompletedJobs, Disposition, Exception, JobId};
    /// let exception = |job, disposition| {
    ///     Exception { claim: ClaimRef(1, 1), job: JobId(job), position: 0, disposition }
    /// };
    /// let completed = |job| exception(job, Disposition::Complete { result: Some(Args::parse("1").unwrap()) });
    /// let request = [completed(7), exception(5, Disposition::Return), completed(6), completed(9)];
    /// let (claims, others) = CompletedJobs::of(&request).unwrap();
    /// assert_eq!((claims.len(), others[0].0), (1, 1));
    /// assert_eq!(claims[0].ranges().collect::<Vec<_>>(), [(6, 7), (9, 9)]);
    /// assert_eq!(claims[0].rows()[0].results, "[1,1,1]");
    /// assert!(CompletedJobs::of(&[completed(7), exception(7, Disposition::Return)]).is_none());
    /// ```
    pub fn of(exceptions: &'a [Exception]) -> Option<(Vec<Self>, Vec<PlacedException<'a>>)> {
        let is_completed = |(_, exception): &PlacedException<'_>| {
            matches!(exception.disposition, Disposition::Complete { .. })
        };
        let job = |(_, exception): &PlacedException<'_>| (exception.claim, exception.job);
        let mut placed: Vec<PlacedException<'a>> = exceptions.iter().enumerate().collect();
        placed.sort_by_key(job);
        if !placed.iter().any(is_completed) || placed.windows(2).any(|two| job(&two[0]) == job(&two[1])) {
            return None;
        }
        let (completed, mut others): (Vec<_>, Vec<_>) = placed.into_iter().partition(is_completed);
        others.sort_unstable_by_key(|(place, _)| *place);
        let claims = completed.chunk_by(|one, next| one.1.claim == next.1.claim);
        let claims = claims.map(|jobs| Self { claim: jobs[0].1.claim, jobs: jobs.to_vec() }).collect();
        Some((claims, others))
    }

    /// Their ids as inclusive ranges without gaps.
    pub fn ranges(&self) -> impl Iterator<Item = (i64, i64)> {
        self.stretches(|_, _| true).map(|(low, high, _)| (low, high))
    }

    /// The same, each of jobs with one position, which comes third.
    pub fn ranges_by_position(&self) -> impl Iterator<Item = (i64, i64, i64)> {
        self.stretches(|one, next| one.position == next.position)
    }

    fn stretches(
        &self,
        together: impl Fn(&Exception, &Exception) -> bool,
    ) -> impl Iterator<Item = (i64, i64, i64)> {
        let stretches =
            self.jobs.chunk_by(move |(_, one), (_, next)| one.job.0 + 1 == next.job.0 && together(one, next));
        stretches.map(|jobs| (jobs[0].1.job.0, jobs[jobs.len() - 1].1.job.0, jobs[0].1.position))
    }

    /// Their results, of those that have one.
    pub fn rows(&self) -> Vec<ResultRow> {
        let mut rows: Vec<ResultRow> = Vec::new();
        for (_, exception) in &self.jobs {
            let Disposition::Complete { result: Some(result) } = &exception.disposition else { continue };
            match rows.last_mut().filter(|row| row.has_room(result)) {
                Some(row) => row.push(exception.job.0, result),
                None => {
                    finish(rows.last_mut());
                    let mut row = ResultRow::default();
                    row.push(exception.job.0, result);
                    rows.push(row);
                }
            }
        }
        finish(rows.last_mut());
        rows
    }
}

fn finish(row: Option<&mut ResultRow>) {
    if let Some(row) = row {
        row.results.push(']');
    }
}

impl ResultRow {
    fn has_room(&self, result: &Args) -> bool {
        self.jobs.len() < MOST_RESULTS && self.results.len() + result.len() < MOST_BYTES
    }

    fn push(&mut self, job: i64, result: &Args) {
        self.results.push(if self.jobs.is_empty() { '[' } else { ',' });
        self.results.push_str(result.as_str());
        self.jobs.push(job);
    }

    /// The last of its jobs.
    pub fn last(&self) -> i64 {
        self.jobs.last().copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JobId;

    fn exception(job: i64, result: Option<&str>) -> Exception {
        let result = result.map(|text| Args::parse(text).unwrap());
        Exception {
            claim: ClaimRef(1, 1),
            job: JobId(job),
            position: 0,
            disposition: Disposition::Complete { result },
        }
    }

    #[test]
    fn rows_are_bounded_and_lose_nothing() {
        let large = format!("{:?}", "x".repeat(MOST_BYTES));
        let texts: Vec<_> =
            (0..2_500).map(|n| if n == 1_700 { large.clone() } else { n.to_string() }).collect();
        let request: Vec<_> = (0..2_500).map(|n| exception(n, Some(&texts[n as usize]))).collect();
        let (claims, _) = CompletedJobs::of(&request).unwrap();
        let rows = claims[0].rows();
        assert_eq!(rows.iter().map(|row| row.jobs.len()).collect::<Vec<_>>(), [1000, 700, 1, 799]);
        for row in rows {
            let expected: Vec<_> = row.jobs.iter().map(|job| texts[*job as usize].as_str()).collect();
            assert_eq!(row.results, format!("[{}]", expected.join(",")));
        }
    }

    #[test]
    fn jobs_without_results_complete_without_rows() {
        let request = [exception(1, None), exception(2, None)];
        let (claims, others) = CompletedJobs::of(&request).unwrap();
        assert_eq!((claims[0].ranges().collect::<Vec<_>>(), others.len()), (vec![(1, 2)], 0));
        assert!(claims[0].rows().is_empty());
        assert!(CompletedJobs::of(&[]).is_none());
        assert!(CompletedJobs::of(&[exception(1, None), exception(1, None)]).is_none());
    }
}
