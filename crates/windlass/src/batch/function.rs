use super::{Batch, IntoOutcomes};
use crate::{Data, DataSet};
use std::future::Future;
use windlass_core::Result;

/// An async function that works [batches](Batch) of jobs: it takes the batch, then up to four [`Data`]. What a handler of one
/// job takes beside it is in the batch, for each of its jobs.
///
/// ```
/// use std::time::Duration;
/// use windlass::{Batch, Client, Data, Job, Outcome, Worker};
/// # struct Db;
/// # #[derive(serde::Serialize, serde::Deserialize)] struct Row { text: String }
/// # impl Job for Row { const KIND: &'static str = "row"; }
/// async fn insert(rows: Batch<Row>, db: Data<Db>) -> Vec<Outcome> {
///     rows.into_iter().map(|row| Outcome::complete_with(&row.args.text.len())).collect()
/// }
///
/// # fn example(client: &Client) {
/// let builder = Worker::builder(client).data(Db).handle_batch(500, Duration::from_millis(200), insert);
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot work batches of jobs",
    note = "a handler of batches is an async function that takes a `Batch` of a `Job` or `RawJob`, then up to four `Data<T>`",
    note = "the types of a closure's arguments have to be written out: `|rows: Batch<Row>, db: Data<Db>| async move {{ .. }}`"
)]
pub trait BatchFn<J, State>: Send + Sync + 'static {
    /// The data that it takes.
    type Prepared: Send + Sync + 'static;
    /// One attempt of all jobs of a batch.
    type Running: Future<Output: IntoOutcomes> + Send + 'static;

    /// Looks its data up.
    ///
    /// # Errors
    /// What keeps the worker from starting.
    fn prepare(data: &DataSet) -> Result<Self::Prepared>;

    /// Starts an attempt.
    fn start(&self, prepared: &Self::Prepared, batch: Batch<J>) -> Self::Running;
}

macro_rules! takes {
    ($($state:ident)*) => {
        impl<F, R, J, $($state,)*> BatchFn<J, ($($state,)*)> for F
        where
            F: Fn(Batch<J>, $(Data<$state>),*) -> R + Send + Sync + 'static,
            R: Future<Output: IntoOutcomes> + Send + 'static,
            $($state: Send + Sync + 'static,)*
        {
            type Prepared = ($(Data<$state>,)*);
            type Running = R;

            #[allow(unused_variables, clippy::unused_unit, reason = "some take nothing")]
            fn prepare(data: &DataSet) -> Result<Self::Prepared> {
                Ok(($(data.get::<$state>()?,)*))
            }

            #[allow(non_snake_case, reason = "the values are named like their types")]
            fn start(&self, prepared: &Self::Prepared, batch: Batch<J>) -> R {
                let ($($state,)*) = prepared;
                self(batch, $($state.clone()),*)
            }
        }
    };
}

takes!();
takes!(A);
takes!(A B);
takes!(A B C);
takes!(A B C D);
