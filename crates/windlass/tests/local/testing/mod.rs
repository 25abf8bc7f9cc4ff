//! The helpers for tests of users.

mod assertions;
mod batches;
mod batches_layered;
mod draining;
mod encrypted;
mod jobs;
mod keys;
mod performing;
