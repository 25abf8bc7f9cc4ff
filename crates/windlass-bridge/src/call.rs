//! A call under way: a panic in it is an error like others, and whoever does not want its answer any more can end it.

use crate::Failure;
use futures_util::future::AbortHandle;
use std::{
    any::Any,
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
};

/// A call that was [started](crate::Client::start). Dropping this does not end it.
#[derive(Debug)]
pub struct Call(pub(crate) AbortHandle);

impl Call {
    /// Ends it where it is: nobody is called back any more. Whether it had its effect by then is not known.
    pub fn abort(&self) {
        self.0.abort();
    }
}

/// The same, but that a panic is a failure.
pub(crate) async fn guarded<T, E: Into<Failure>>(
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, Failure> {
    let mut work = pin!(work);
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))) {
        Ok(polled) => polled.map_err(Into::into),
        Err(panic) => std::task::Poll::Ready(Err(panicked(&*panic))),
    })
    .await
}

fn panicked(panic: &(dyn Any + Send)) -> Failure {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("with something that is no text");
    let message = format!("a defect in Windlass, please report it: the call panicked: {text}");
    Failure { code: "internal", message, retryable: false, ambiguous: true }
}
