use napi::{
    Env, Error, JsDeferred, Result, Status,
    bindgen_prelude::{Object, ToNapiValue},
};
use serde_json::json;
use std::{
    sync::{Arc, Mutex, PoisonError},
    thread,
};
use windlass::ErrorKind;
use windlass_bridge::Failure;

type Resolver<T> = Box<dyn FnOnce(Env) -> Result<T>>;

/// The half of a promise that any thread may settle; clones are the same one. When all are dropped unsettled, which only a panic
/// does, it rejects.
pub(crate) struct Answer<T: ToNapiValue + 'static>(Arc<Unsettled<T>>);

struct Unsettled<T: ToNapiValue + 'static>(Mutex<Option<JsDeferred<T, Resolver<T>>>>);

impl<T: ToNapiValue + Send + 'static> Answer<T> {
    pub(crate) fn settle(&self, result: std::result::Result<T, Failure>) {
        let Some(deferred) = self.0.take() else { return };
        match result {
            Ok(value) => deferred.resolve(Box::new(move |_| Ok(value))),
            Err(failure) => deferred.reject(error(&failure)),
        }
    }
}

impl<T: ToNapiValue + 'static> Unsettled<T> {
    fn take(&self) -> Option<JsDeferred<T, Resolver<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<T: ToNapiValue + 'static> Drop for Unsettled<T> {
    fn drop(&mut self) {
        if let Some(deferred) = self.take() {
            deferred.reject(error(&panicked()));
        }
    }
}

/// A promise of what is started here. Where that fails at once the promise rejects, too: there is one place to catch errors.
pub(crate) fn promise<T: ToNapiValue + Send + 'static>(
    env: &Env,
    start: impl FnOnce(Answer<T>) -> std::result::Result<(), Failure>,
) -> Result<Object<'_>> {
    let (deferred, promise) = env.create_deferred()?;
    let answer = Answer(Arc::new(Unsettled(Mutex::new(Some(deferred)))));
    if let Err(failure) = start(Answer(Arc::clone(&answer.0))) {
        answer.settle(Err(failure));
    }
    Ok(promise)
}

/// A promise of something that blocks, which is done on a thread of its own.
pub(crate) fn on_a_thread<T: ToNapiValue + Send + 'static>(
    env: &Env,
    work: impl FnOnce() -> std::result::Result<T, Failure> + Send + 'static,
) -> Result<Object<'_>> {
    promise(env, |answer| {
        let thread = thread::Builder::new().name("windlass-call".into());
        let started = thread.spawn(move || answer.settle(work()));
        let refuse = |cause| failure(ErrorKind::Internal, format!("no thread can be started: {cause}"));
        started.map(drop).map_err(refuse)
    })
}

pub(crate) fn failure(kind: ErrorKind, message: impl Into<String>) -> Failure {
    windlass::Error::new(kind, message).into()
}

/// Of a call that is gone without an answer.
pub(crate) fn panicked() -> Failure {
    failure(ErrorKind::Internal, "the call panicked")
}

/// An error whose message is JSON, of which ts/errors.ts makes one of its classes.
pub(crate) fn error(failure: &Failure) -> Error {
    Error::new(Status::GenericFailure, told(failure))
}

/// That JSON.
pub(crate) fn told(failure: &Failure) -> String {
    let Failure { code, message, retryable, ambiguous } = failure;
    json!({ "code": code, "message": message, "retryable": retryable, "ambiguous": ambiguous }).to_string()
}
