use crate::{DataSet, Extract};
use std::future::Future;
use windlass_core::{IntoOutcome, Result};
use windlass_runtime::Context;

/// An async function that works jobs: it takes the job, then up to four [extractors](Extract) in any order.
/// Implemented for all such functions and closures; the types of a closure's arguments have to be written out.
///
/// ```
/// use windlass::{Attempt, Client, Context, Data, Job, JobId, RawJob, Worker};
/// # struct Db;
/// # #[derive(serde::Serialize, serde::Deserialize)] struct SendMail { to: String }
/// # impl Job for SendMail { const KIND: &'static str = "mail.send"; }
/// # #[derive(serde::Serialize, serde::Deserialize)] struct Ping;
/// # impl Job for Ping { const KIND: &'static str = "ping"; }
/// async fn send_mail(mail: SendMail, db: Data<Db>, attempt: Attempt) -> Result<(), anyhow::Error> {
///     Ok(())
/// }
///
/// async fn any(job: RawJob, id: JobId, ctx: Context) {
///     println!("job {id} of kind {} with {:?}", ctx.kind(), job.json());
/// }
///
/// # async fn example(client: &Client) {
/// let builder = Worker::builder(client)
///     .data(Db)
///     .handle(send_mail)
///     .handle(|_: Ping| async { println!("pong") })
///     .handle_any(any);
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot work jobs",
    note = "a handler is an async function that takes a `Job` or `RawJob`, then up to four of `Context`, `Data<T>`, `Attempt`, `JobId`, in any order",
    note = "the types of a closure's arguments have to be written out: `|job: SendMail, ctx: Context| async move {{ .. }}`"
)]
pub trait HandlerFn<J, Extractors>: Send + Sync + 'static {
    /// What its extractors prepared.
    type Prepared: Send + Sync + 'static;
    /// One attempt.
    type Running: Future<Output: IntoOutcome> + Send + 'static;

    /// Asks each extractor to [prepare](Extract::prepare).
    ///
    /// # Errors
    /// What keeps the worker from starting.
    fn prepare(data: &DataSet) -> Result<Self::Prepared>;

    /// Starts an attempt.
    fn start(&self, prepared: &Self::Prepared, job: J, context: Context) -> Self::Running;
}

impl<F, R, J> HandlerFn<J, ()> for F
where
    F: Fn(J) -> R + Send + Sync + 'static,
    R: Future<Output: IntoOutcome> + Send + 'static,
{
    type Prepared = ();
    type Running = R;

    fn prepare(_: &DataSet) -> Result<()> {
        Ok(())
    }

    fn start(&self, (): &(), job: J, _: Context) -> R {
        self(job)
    }
}

macro_rules! takes {
    ($($extractor:ident)* ; $last:ident) => {
        impl<F, R, J, $($extractor,)* $last> HandlerFn<J, ($($extractor,)* $last,)> for F
        where
            F: Fn(J, $($extractor,)* $last) -> R + Send + Sync + 'static,
            R: Future<Output: IntoOutcome> + Send + 'static,
            $($extractor: Extract,)*
            $last: Extract,
        {
            type Prepared = ($($extractor::Prepared,)* $last::Prepared,);
            type Running = R;

            fn prepare(data: &DataSet) -> Result<Self::Prepared> {
                Ok(($($extractor::prepare(data)?,)* $last::prepare(data)?,))
            }

            #[allow(non_snake_case, reason = "the values are named like their types")]
            fn start(&self, prepared: &Self::Prepared, job: J, context: Context) -> R {
                let ($($extractor,)* $last,) = prepared;
                $(let $extractor = $extractor::extract($extractor, &context);)*
                self(job, $($extractor,)* $last::extract_last($last, context))
            }
        }
    };
}

takes!(; A);
takes!(A ; B);
takes!(A B ; C);
takes!(A B C ; D);
