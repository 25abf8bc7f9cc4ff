use crate::promise::{on_a_thread, promise};
use napi::{Env, Result, bindgen_prelude::Object};
use napi_derive::napi;
use windlass_bridge::{Client, Engine};

/// A connection to a store.
#[napi]
pub struct NativeClient {
    pub(crate) inner: Client,
}

/// Opens the store that a URL names, with keys for encrypted jobs: a promise of a client.
#[napi(catch_unwind)]
pub fn open(env: &Env, url: String, keys: Option<String>) -> Result<Object<'_>> {
    on_a_thread(env, move || {
        let engine = Engine::of_process()?;
        let inner = match keys {
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
