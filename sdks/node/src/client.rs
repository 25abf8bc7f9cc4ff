use crate::promise::{error, on_a_thread, promise};
use napi::{Env, Result, bindgen_prelude::Object};
use napi_derive::napi;
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use windlass_bridge::{Call, Client, Engine};

/// A connection to a store.
#[napi]
pub struct NativeClient {
    pub(crate) inner: Client,
    /// Calls that may be ended, by their numbers.
    endable: Mutex<HashMap<u32, Call>>,
}

/// Opens the store that a URL names, with keys for encrypted jobs: a promise of a client.
#[napi(catch_unwind)]
pub fn open(env: &Env, url: String, keys: Option<String>, is_test: Option<bool>) -> Result<Object<'_>> {
    on_a_thread(env, move || {
        let engine = Engine::of_process()?;
        let inner = match keys {
            keys if is_test == Some(true) => Client::open_for_test(&engine, &url, keys.as_deref())?,
            Some(keys) => Client::open_with_keys(&engine, &url, &keys)?,
            None => Client::open(&engine, &url)?,
        };
        Ok(NativeClient { inner, endable: Mutex::default() })
    })
}

#[napi]
impl NativeClient {
    /// One operation of the store, JSON text in and out: a promise of text. With a number it can be ended.
    #[napi(catch_unwind)]
    pub fn call<'env>(
        &self,
        env: &'env Env,
        op: String,
        payload: String,
        number: Option<u32>,
    ) -> Result<Object<'env>> {
        promise::<String>(env, move |answer| {
            let call = self.inner.start(&op, payload, move |text| answer.settle(text))?;
            if let Some(number) = number {
                self.endable().insert(number, call);
            }
            Ok(())
        })
    }

    /// Ends a call of this number, if it goes on: its promise rejects, which nobody is to wait for any more. To be called of each that has a number.
    #[napi(catch_unwind)]
    pub fn end(&self, number: u32) {
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
    fn endable(&self) -> MutexGuard<'_, HashMap<u32, Call>> {
        self.endable.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
