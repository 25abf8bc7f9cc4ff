use napi_derive::napi;

/// The version that this was built as; that of the package has to be the same.
#[napi]
pub fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// Panics, to test what becomes of that.
#[cfg(debug_assertions)]
#[napi(catch_unwind)]
pub fn panic_for_test() {
    panic!("asked to panic");
}

/// A promise whose work panics, to test what becomes of that.
#[cfg(debug_assertions)]
#[napi(catch_unwind)]
pub fn panic_later_for_test(env: &napi::Env) -> napi::Result<napi::bindgen_prelude::Object<'_>> {
    crate::promise::on_a_thread::<()>(env, || panic!("asked to panic"))
}
