//! The native part of the npm package `windlass`: a thin addon over `windlass-bridge`.
//!
//! JSON text and typed arrays cross the boundary, in batches; what they mean is said in `ts/native.ts`, which is the only
//! file that loads this. No thread of the engine ever enters JavaScript but through the bells of workers and clients, and the answers of promises.

// What napi registers with Node is not registered in a test build, which clippy makes of every library.
#![cfg_attr(test, allow(dead_code))]

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
