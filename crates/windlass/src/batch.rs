mod function;
mod handler;
mod meeting;
mod member;
mod outcomes;
mod running;
mod shared;

pub use function::BatchFn;
pub(crate) use handler::{Batched, Joining};
pub use outcomes::{IntoOutcomes, Outcomes};
pub(crate) use shared::{Rules, Shared};

use std::{ops::Deref, slice, vec};
use windlass_core::JobId;
use windlass_runtime::Context;

/// Jobs of one kind that a [handler of batches](crate::WorkerBuilder::handle_batch) works at once, in the order in which the
/// worker took them. Never empty. Behaves like a slice, and gives the jobs away when it is iterated.
///
/// ```
/// use windlass::{Batch, Job};
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Row { user: u64, text: String }
/// # impl Job for Row { const KIND: &'static str = "row"; }
///
/// async fn insert(rows: Batch<Row>) -> Result<(), std::io::Error> {
///     let users: Vec<u64> = rows.iter().map(|row| row.args.user).collect();
///     let texts: Vec<String> = rows.into_iter().map(|row| row.args.text).collect();
///     // one INSERT of all of them
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct Batch<J> {
    jobs: Vec<BatchJob<J>>,
}

/// One job of a [`Batch`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BatchJob<J> {
    /// What the job says.
    pub args: J,
    /// What else is known of it, and how its handler reports on it. Its [token](Context::cancelled) fires when this job is
    /// cancelled, or the whole batch is to stop.
    pub ctx: Context,
}

impl<J> BatchJob<J> {
    pub(crate) fn new(args: J, ctx: Context) -> Self {
        Self { args, ctx }
    }

    /// The job's identity.
    pub fn id(&self) -> JobId {
        self.ctx.id()
    }
}

impl<J> Batch<J> {
    pub(crate) fn new(jobs: Vec<BatchJob<J>>) -> Self {
        Self { jobs }
    }
}

impl<J> Deref for Batch<J> {
    type Target = [BatchJob<J>];

    fn deref(&self) -> &Self::Target {
        &self.jobs
    }
}

impl<J> IntoIterator for Batch<J> {
    type Item = BatchJob<J>;
    type IntoIter = vec::IntoIter<BatchJob<J>>;

    fn into_iter(self) -> Self::IntoIter {
        self.jobs.into_iter()
    }
}

impl<'a, J> IntoIterator for &'a Batch<J> {
    type Item = &'a BatchJob<J>;
    type IntoIter = slice::Iter<'a, BatchJob<J>>;

    fn into_iter(self) -> Self::IntoIter {
        self.jobs.iter()
    }
}
