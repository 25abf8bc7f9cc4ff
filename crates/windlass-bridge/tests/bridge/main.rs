//! What bindings of other languages stand on.
#![allow(unreachable_pub, missing_docs, reason = "a test binary")]

mod calls;
mod collecting;
mod opened;
mod vectors;
mod worker;
