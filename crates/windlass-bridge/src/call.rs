//! A call under way: a panic in it is an error like others, and whoever does not want its answer any more can end it.

use crate::Failure;
use futures_util::{
    StreamExt,
    future::{AbortHandle, Abortable},
    stream::FuturesUnordered,
};
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

/// What becomes of calls by their numbers.
pub type Ended = Vec<(u64, Result<String, Failure>)>;

/// Does several calls side by side, each of which can be ended by itself, and tells of those that end together at once.
pub(crate) fn side_by_side<F: Future<Output = Result<String, Failure>>>(
    calls: Vec<(u64, F)>,
    told: impl Fn(Ended),
) -> (Vec<Call>, impl Future<Output = ()>) {
    let one = |(number, work)| {
        let (handle, registration) = AbortHandle::new_pair();
        let ended = async move { (number, guarded(work).await) };
        (Call(handle), Abortable::new(ended, registration))
    };
    let (handles, calls): (Vec<_>, FuturesUnordered<_>) = calls.into_iter().map(one).unzip();
    let all = calls.len().max(1);
    let work = calls.ready_chunks(all).for_each(move |ended| {
        let ended: Ended = ended.into_iter().flatten().collect(); // without those that were aborted
        if !ended.is_empty() {
            told(ended);
        }
        std::future::ready(())
    });
    (handles, work)
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

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::sync::Mutex;
    use tokio::sync::oneshot;

    #[test]
    fn calls_that_end_together_are_told_of_at_once_and_others_by_themselves() {
        let told = Mutex::new(Vec::new());
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..4).map(|_| oneshot::channel::<&str>()).unzip();
        let work = |receiver: oneshot::Receiver<&'static str>| async {
            match receiver.await.unwrap() {
                "panic" => panic!("asked to"),
                said => Ok::<_, Failure>(said.to_owned()),
            }
        };
        let numbered = (7..).zip(receivers.into_iter().map(work)).collect();
        let (calls, all) = side_by_side(numbered, |ended| told.lock().unwrap().push(ended));
        let mut all = pin!(all);
        let told = || std::mem::take(&mut *told.lock().unwrap());
        assert!(all.as_mut().now_or_never().is_none() && told().is_empty());
        let [a, b, c, d] = senders.try_into().unwrap();
        a.send("a").unwrap();
        b.send("panic").unwrap();
        assert!(all.as_mut().now_or_never().is_none());
        let [ended] = told().try_into().unwrap();
        let [first, second] = ended.try_into().unwrap();
        assert_eq!(first, (7, Ok("a".to_owned())));
        assert!(matches!(second, (8, Err(Failure { code: "internal", .. }))), "{second:?}");
        calls[2].abort();
        assert!(all.as_mut().now_or_never().is_none());
        assert!(told().is_empty() && c.is_closed(), "who ends a call is told nothing of it");
        d.send("d").unwrap();
        assert!(all.as_mut().now_or_never().is_some());
        assert_eq!(told(), [vec![(10, Ok("d".to_owned()))]]);
    }
}
