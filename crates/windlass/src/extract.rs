use crate::{Data, DataSet};
use std::sync::Arc;
use windlass_core::{JobId, Result};
use windlass_runtime::Context;

/// What a handler may take beside its job: [`Context`], [`Data`], [`Attempt`], [`JobId`], or a type of yours.
///
/// What can go wrong goes wrong when the worker starts: [`Self::prepare`] is asked once per handler, what it
/// found is at hand for each job.
///
/// ```
/// use windlass::{Context, Data, DataSet, Extract};
/// struct Tenants(std::collections::HashMap<String, String>);
///
/// /// The tenant whose queue the job came from.
/// struct Tenant(Option<String>);
///
/// impl Extract for Tenant {
///     type Prepared = Data<Tenants>;
///
///     fn prepare(data: &DataSet) -> windlass::Result<Data<Tenants>> {
///         data.get()
///     }
///
///     fn extract(tenants: &Data<Tenants>, context: &Context) -> Self {
///         Self(tenants.0.0.get(context.queue()).cloned())
///     }
/// }
///
/// # #[derive(serde::Serialize, serde::Deserialize)] struct Bill;
/// async fn bill(job: Bill, tenant: Tenant) {}
/// ```
#[diagnostic::on_unimplemented(
    message = "a handler cannot take `{Self}`",
    note = "beside its job a handler takes `Context`, `Data<T>`, `Attempt`, `JobId` and types that implement `Extract`"
)]
pub trait Extract: Sized + Send + 'static {
    /// What is looked up once, when the worker starts.
    type Prepared: Send + Sync + 'static;

    /// Looks up what every job needs.
    ///
    /// # Errors
    /// What keeps the worker from starting.
    fn prepare(data: &DataSet) -> Result<Self::Prepared>;

    /// The value for one job.
    fn extract(prepared: &Self::Prepared, context: &Context) -> Self;

    /// The value for one job when the handler takes nothing after it. Only [`Context`] has something to save.
    fn extract_last(prepared: &Self::Prepared, context: Context) -> Self {
        Self::extract(prepared, &context)
    }
}

impl Extract for Context {
    type Prepared = ();

    fn prepare(_: &DataSet) -> Result<()> {
        Ok(())
    }

    fn extract((): &(), context: &Context) -> Self {
        context.clone()
    }

    fn extract_last((): &(), context: Context) -> Self {
        context
    }
}

impl<T: Send + Sync + 'static> Extract for Data<T> {
    type Prepared = Self;

    fn prepare(data: &DataSet) -> Result<Self> {
        data.get()
    }

    fn extract(prepared: &Self, _: &Context) -> Self {
        Self(Arc::clone(&prepared.0))
    }
}

impl Extract for JobId {
    type Prepared = ();

    fn prepare(_: &DataSet) -> Result<()> {
        Ok(())
    }

    fn extract((): &(), context: &Context) -> Self {
        context.id()
    }
}

/// Which attempt of its job this is.
///
/// ```
/// # use windlass::{Attempt, Job};
/// # #[derive(serde::Serialize, serde::Deserialize)] struct Call { number: String }
/// async fn call(job: Call, attempt: Attempt) -> Result<(), String> {
///     if attempt.is_last() {
///         println!("giving up on {} after {} attempts", job.number, attempt.number);
///     }
///     Err("nobody answers".into())
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempt {
    /// From 1.
    pub number: u16,
    /// How many the job has in all.
    pub max: u16,
}

impl Attempt {
    /// Whether a failure of this attempt discards the job.
    pub fn is_last(self) -> bool {
        self.number >= self.max
    }
}

impl Extract for Attempt {
    type Prepared = ();

    fn prepare(_: &DataSet) -> Result<()> {
        Ok(())
    }

    fn extract((): &(), context: &Context) -> Self {
        Self { number: context.attempt(), max: context.max_attempts() }
    }
}
