use napi::{Env, Error, JsDeferred, Result, Status, bindgen_prelude::Object, bindgen_prelude::ToNapiValue};
use serde_json::json;
use std::thread;
use windlass::ErrorKind;
use windlass_bridge::Failure;

type Resolver<T> = Box<dyn FnOnce(Env) -> Result<T>>;

/// The half of a promise that any thread may settle. Dropped unsettled, which only a panic does, it rejects.
pub(crate) struct Promise<T: ToNapiValue + 'static> {
    deferred: Option<JsDeferred<T, Resolver<T>>>,
}

impl<T: ToNapiValue + Send + 'static> Promise<T> {
    pub(crate) fn new(env: &Env) -> Result<(Self, Object<'_>)> {
        let (deferred, promise) = env.create_deferred()?;
        Ok((Self { deferred: Some(deferred) }, promise))
    }

    pub(crate) fn settle(mut self, result: std::result::Result<T, Failure>) {
        let Some(deferred) = self.deferred.take() else { return };
        match result {
            Ok(value) => deferred.resolve(Box::new(move |_| Ok(value))),
            Err(failure) => deferred.reject(error(&failure)),
        }
    }
}

impl<T: ToNapiValue + 'static> Drop for Promise<T> {
    fn drop(&mut self) {
        if let Some(deferred) = self.deferred.take() {
            deferred.reject(error(&failure(ErrorKind::Internal, "the call panicked")));
        }
    }
}

/// Runs something that blocks, on a thread of its own.
pub(crate) fn on_a_thread<'env, T: ToNapiValue + Send + 'static>(
    env: &'env Env,
    work: impl FnOnce() -> std::result::Result<T, Failure> + Send + 'static,
) -> Result<Object<'env>> {
    let (answer, promise) = Promise::new(env)?;
    let started = thread::Builder::new().name("windlass-call".into()).spawn(move || answer.settle(work()));
    match started {
        Ok(_) => Ok(promise),
        // The promise rejects, too, and nobody has it.
        Err(cause) => {
            Err(error(&failure(ErrorKind::Internal, format!("no thread can be started: {cause}"))))
        }
    }
}

pub(crate) fn failure(kind: ErrorKind, message: impl Into<String>) -> Failure {
    windlass::Error::new(kind, message).into()
}

/// An error whose message is JSON, of which ts/errors.ts makes one of its classes.
pub(crate) fn error(failure: &Failure) -> Error {
    let Failure { code, message, retryable, ambiguous } = failure;
    let told = json!({ "code": code, "message": message, "retryable": retryable, "ambiguous": ambiguous });
    Error::new(Status::GenericFailure, told.to_string())
}
