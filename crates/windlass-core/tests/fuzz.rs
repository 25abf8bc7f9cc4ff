//! The fuzz bodies that need nothing but this crate, on stable.
#![allow(unreachable_pub)] // the bodies are public to their fuzz targets

#[path = "../../../fuzz/src/args.rs"]
mod args;
#[path = "../../../fuzz/src/names.rs"]
mod names;
#[path = "../../../fuzz/src/property.rs"]
mod property;

#[test]
fn args_hold_what_they_promise() {
    property::check("args", args::WORDS, 6_000, args::body);
}

#[test]
fn names_hold_what_they_promise() {
    property::check("names", names::WORDS, 3_000, names::body);
}
