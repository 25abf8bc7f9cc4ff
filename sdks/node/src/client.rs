use crate::{
    answers::{Answered, Answers},
    promise::{error, on_a_thread},
};
use napi::{
    Env, Result,
    bindgen_prelude::{Function, Object},
};
use napi_derive::napi;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use windlass_bridge::{Call, Client, Engine};

/// A connection to a store.
#[napi]
pub struct NativeClient {
    pub(crate) inner: Client,
    answers: Arc<Answers>,
    /// Calls that may be ended, by their numbers.
    endable: Mutex<HashMap<i32, Call>>,
}

/// Opens the store that a URL names, with keys for encrypted jobs: a promise of a client. The bell is called when there are answers.
#[napi(catch_unwind)]
pub fn open<'env>(
    env: &'env Env,
    url: String,
    keys: Option<String>,
    is_test: bool,
    bell: Function<'_, (), ()>,
) -> Result<Object<'env>> {
    let answers = Answers::new(&bell)?;
    on_a_thread(env, move || {
        let engine = Engine::of_process()?;
        let inner = match keys {
            keys if is_test => Client::open_for_test(&engine, &url, keys.as_deref())?,
            Some(keys) => Client::open_with_keys(&engine, &url, &keys)?,
            None => Client::open(&engine, &url)?,
        };
        Ok(NativeClient { inner, answers, endable: Mutex::default() })
    })
}

/// Whether a statement of `enqueue_sql` would refuse these jobs, as `enqueue` takes them. No store is needed for it.
#[allow(clippy::needless_pass_by_value, reason = "as napi hands it over")]
#[napi(catch_unwind)]
pub fn check_jobs(jobs: String) -> Result<()> {
    windlass_bridge::check_jobs(&jobs).map_err(|failure| error(&failure))
}

#[napi]
impl NativeClient {
    /// Starts operations of the store, JSON text in and out. Their answers come under their numbers, above 0. Those with a negative number may be ended.
    #[napi(catch_unwind)]
    pub fn start(&self, ops: Vec<String>, payloads: Vec<String>, numbers: Vec<i32>) -> Result<()> {
        let calls = ops.into_iter().zip(payloads).zip(&numbers).map(|((op, payload), number)| {
            let answer = self.answers.of_call(number.abs());
            (op, payload, move |text| answer.give(text))
        });
        let answers = Arc::clone(&self.answers);
        let calls = self.inner.start_all(calls, move || answers.ring()).map_err(|failure| error(&failure))?;
        for (number, call) in numbers.into_iter().zip(calls) {
            if number < 0 {
                self.endable().insert(-number, call);
            }
        }
        Ok(())
    }

    /// What was answered since the last time, if anything.
    #[napi(catch_unwind)]
    pub fn answers(&self) -> Option<Answered> {
        self.answers.take()
    }

    /// Ends a call of this number, if it goes on: its promise rejects, which nobody is to wait for any more. To be called of each that has a number.
    #[napi(catch_unwind)]
    pub fn end(&self, number: i32) {
        let call = self.endable().remove(&number);
        if let Some(call) = call {
            call.abort();
        }
    }

    /// Lets so many milliseconds pass, in the store of a test.
    #[napi(catch_unwind)]
    pub fn travel(&self, ms: f64) -> Result<()> {
        let by = Duration::try_from_secs_f64(ms / 1_000.0).unwrap_or(Duration::MAX);
        self.inner.travel(by).map_err(|failure| error(&failure))
    }

    /// Closes its connections: a promise.
    #[napi(catch_unwind)]
    pub fn close<'env>(&self, env: &'env Env) -> Result<Object<'env>> {
        let client = self.inner.clone();
        on_a_thread(env, move || {
            client.close();
            Ok(())
        })
    }
}

impl NativeClient {
    fn endable(&self) -> MutexGuard<'_, HashMap<i32, Call>> {
        self.endable.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
