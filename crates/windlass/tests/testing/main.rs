//! The helpers for tests of users.
#![cfg(all(feature = "testing", feature = "sqlite", feature = "derive"))]

mod assertions;
mod batches;
mod batches_layered;
mod draining;
mod encrypted;
mod jobs;
mod keys;
mod performing;
