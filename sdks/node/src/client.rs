use crate::promise::{error, on_a_thread, promise};
use napi::{Env, Result, bindgen_prelude::Object};
use napi_derive::napi;
use std::time::Duration;
use windlass_bridge::{Client, Engine};

/// A connection to a store.
#[napi]
pub struct NativeClient {
    pub(crate) inner: Client,
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
        Ok(NativeClient { inner })
    })
}

#[napi]
impl NativeClient {
    /// One operation of the store, JSON text in and out: a promise of text.
    #[napi(catch_unwind)]
    pub fn call<'env>(&self, env: &'env Env, op: String, payload: String) -> Result<Object<'env>> {
        promise::<String>(env, move |answer| {
            self.inner.start(&op, payload, move |text| answer.settle(text)).map(drop)
        })
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
