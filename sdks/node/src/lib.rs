//! The native part of the npm package `windlass`: a thin addon over `windlass-bridge`.
//!
//! JSON text and typed arrays cross the boundary, in batches; what they mean is said in `ts/native.ts`, which is the only
//! file that loads this. No thread of the engine ever enters JavaScript but through the bells of workers and clients, and the answers of promises.

// Nothing of it can be tested without Node; `cargo test --lib` builds every library once more for its tests, also one that says that it has none.
#![cfg(not(test))]

#[allow(unsafe_code, unreachable_pub, reason = "what the macros of napi write, and ask for")]
mod answers;
#[allow(unsafe_code, unreachable_pub, reason = "what the macros of napi write, and ask for")]
mod client;
#[allow(unsafe_code, unreachable_pub, reason = "what the macros of napi write, and ask for")]
mod command;
mod job_numbers;
#[allow(unsafe_code, unreachable_pub, reason = "what the macros of napi write, and ask for")]
mod lent;
mod promise;
mod shared;
#[allow(unsafe_code, unreachable_pub, reason = "what the macros of napi write, and ask for")]
mod version;
#[cfg(feature = "witness")]
mod watched;
#[cfg(feature = "witness")]
#[allow(unsafe_code, unreachable_pub, reason = "what the macros of napi write, and ask for")]
mod witness;
#[allow(unsafe_code, unreachable_pub, reason = "what the macros of napi write, and ask for")]
mod worker;
