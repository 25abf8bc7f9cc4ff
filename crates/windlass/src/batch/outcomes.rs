use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error as StdError,
};
use windlass_core::{IntoOutcome, JobId, Outcome};

/// What a handler of batches says about its jobs.
///
/// ```
/// use windlass::{Batch, Job, Outcomes};
/// # #[derive(serde::Serialize, serde::Deserialize)] struct Row;
/// # impl Job for Row { const KIND: &'static str = "row"; }
/// # struct Refused { row: usize, why: String }
/// # async fn insert_all(_: &Batch<Row>) -> Result<Vec<Refused>, std::io::Error> { Ok(Vec::new()) }
/// async fn insert(rows: Batch<Row>) -> Result<Outcomes, std::io::Error> {
///     let mut outcomes = Outcomes::default(); // all complete
///     for Refused { row, why } in insert_all(&rows).await? {
///         outcomes.set(rows[row].id(), Err::<(), _>(why)); // but not this one
///     }
///     Ok(outcomes)
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcomes {
    all: All,
    by_job: BTreeMap<JobId, Outcome>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum All {
    Same(Outcome),
    Each(Vec<Outcome>),
}

impl Outcomes {
    /// The same for all jobs.
    pub fn all(outcome: impl IntoOutcome) -> Self {
        Self { all: All::Same(outcome.into_outcome()), by_job: BTreeMap::new() }
    }

    /// One for each job, in the order of the batch. When there are more or fewer than jobs, all jobs fail.
    pub fn each<T: IntoOutcome>(outcomes: impl IntoIterator<Item = T>) -> Self {
        let each = outcomes.into_iter().map(T::into_outcome).collect();
        Self { all: All::Each(each), by_job: BTreeMap::new() }
    }

    /// What becomes of one job, whatever was said before. When it is none of the batch, the jobs that were not named fail:
    /// one of them may have been meant.
    pub fn set(&mut self, job: JobId, outcome: impl IntoOutcome) {
        self.by_job.insert(job, outcome.into_outcome());
    }

    /// The outcomes of these jobs.
    pub(crate) fn of(self, jobs: &[JobId]) -> Vec<Outcome> {
        let Self { all, mut by_job } = self;
        let known: BTreeSet<_> = if by_job.is_empty() { BTreeSet::new() } else { jobs.iter().collect() };
        let stranger = by_job.keys().find(|job| !known.contains(job));
        let all = match (stranger, all) {
            (Some(job), _) => same(
                jobs,
                &failed(format!("the handler gave an outcome for job {job}, which is not in its batch")),
            ),
            (None, All::Each(each)) if each.len() != jobs.len() => {
                let (got, count) = (each.len(), jobs.len());
                same(
                    jobs,
                    &failed(format!(
                        "the handler gave {got} outcomes for a batch of {count} jobs; give one for each, in their order"
                    )),
                )
            }
            (None, All::Each(each)) => each,
            (None, All::Same(outcome)) => same(jobs, &outcome),
        };
        jobs.iter().zip(all).map(|(job, outcome)| by_job.remove(job).unwrap_or(outcome)).collect()
    }
}

fn same(jobs: &[JobId], outcome: &Outcome) -> Vec<Outcome> {
    vec![outcome.clone(); jobs.len()]
}

fn failed(error: String) -> Outcome {
    Outcome::Retry { after: None, error }
}

/// All jobs complete.
impl Default for Outcomes {
    fn default() -> Self {
        Self::all(())
    }
}

/// What a handler of batches may return: nothing, an [`Outcome`] for all jobs, a `Vec` with one for each in the order of the
/// batch, [`Outcomes`], or a `Result` of any of these, whose error fails all jobs.
///
/// ```
/// use windlass::{IntoOutcomes, Outcomes};
/// assert_eq!(().into_outcomes(), Outcomes::default());
/// let each: Result<Vec<Result<(), &str>>, String> = Ok(vec![Ok(()), Err("too long")]);
/// assert_eq!(each.into_outcomes(), Outcomes::each([Ok(()), Err("too long")]));
/// ```
#[diagnostic::on_unimplemented(
    message = "a handler of batches cannot return `{Self}`",
    note = "it returns nothing, `Outcome`, `Outcomes`, a `Vec` of what handlers of one job return, or a `Result` of one of these"
)]
pub trait IntoOutcomes {
    /// What becomes of the jobs.
    fn into_outcomes(self) -> Outcomes;
}

impl IntoOutcomes for Outcomes {
    fn into_outcomes(self) -> Outcomes {
        self
    }
}

impl IntoOutcomes for () {
    fn into_outcomes(self) -> Outcomes {
        Outcomes::default()
    }
}

impl IntoOutcomes for Outcome {
    fn into_outcomes(self) -> Outcomes {
        Outcomes::all(self)
    }
}

impl<T: IntoOutcome> IntoOutcomes for Vec<T> {
    fn into_outcomes(self) -> Outcomes {
        Outcomes::each(self)
    }
}

impl<T: IntoOutcomes, E: Into<Box<dyn StdError + Send + Sync>>> IntoOutcomes for Result<T, E> {
    fn into_outcomes(self) -> Outcomes {
        match self {
            Ok(value) => value.into_outcomes(),
            Err(error) => Outcomes::all(Err::<(), E>(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(outcomes: Outcomes) -> Vec<String> {
        let error = |outcome| match outcome {
            Outcome::Retry { error, .. } => error,
            other => format!("{other:?}"),
        };
        outcomes.of(&[JobId(1), JobId(2)]).into_iter().map(error).collect()
    }

    #[test]
    fn what_fits_no_batch_fails_all_that_were_not_named() {
        let mut outcomes = Outcomes::each([(), (), ()]);
        assert!(errors(outcomes.clone()).iter().all(|error| error.contains("3 outcomes for a batch of 2")));
        outcomes.set(JobId(2), Outcome::Complete(None));
        assert_eq!(errors(outcomes)[1], "Complete(None)");
        let mut outcomes = Outcomes::default();
        outcomes.set(JobId(7), Err::<(), _>("lost"));
        outcomes.set(JobId(1), ());
        let errors = errors(outcomes);
        assert_eq!(errors[0], "Complete(None)");
        assert!(errors[1].contains("for job 7, which is not in its batch"), "{errors:?}");
    }
}
